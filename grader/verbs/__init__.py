"""Hold one module a verb of the command line; each offers what `grader.cli.Verb` says: `configure` and `run`."""
