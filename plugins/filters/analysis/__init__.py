"""What rules do to a queue of jobs: for one job, over time, and beside other rules."""
