"""The paper's tables and figures as checked spec files, run into result files, and compared with what the paper prints."""
