"""Files of sentences in, one file of vectors out, of any size."""
