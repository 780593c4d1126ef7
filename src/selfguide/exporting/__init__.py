"""A trained model as one file for other runtimes, its pooling inside, checked against PyTorch before it is called done."""
