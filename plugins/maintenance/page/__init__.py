"""The status page for people: the status as HTML, with the bars of `allocators.overview`."""
