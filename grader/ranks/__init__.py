"""Everything that runs outside the trusted process, beside a submission."""
