"""Show results: as text on a terminal, as JSON, as JUnit XML, and as commands and files of GitHub Actions."""
