"""Jobs: what `tidelog spark JOB` runs; each can be called from a notebook as well."""
