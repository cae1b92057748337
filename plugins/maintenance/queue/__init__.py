"""What is handed to luxid and what its job queue shows: submissions, calls, open jobs."""
