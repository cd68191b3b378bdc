"""Show results: on a terminal, as JSON and JUnit XML, and as GitHub Actions, Gradescope and Classroom 50 read them."""
