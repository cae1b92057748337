"""The built-in collectors; `shared` holds what several of them use.

The pages about collectors in ``docs/reference`` have a section for each.
"""
