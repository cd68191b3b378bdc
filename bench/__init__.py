"""What takes long or is timed: run by `nox -s bench`, whose results are in BENCH.md. Nothing here is a test."""
