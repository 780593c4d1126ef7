"""One self-contained HTML page of tables and charts, from score rows and the artefacts of a run; needs no model."""
