"""The names a user can choose from, in one place that imports nothing heavy; a test compares each with its catalogue."""

OBJECTIVES = ("sg", "opt1", "opt2", "sg-opt", "simcse", "bt", "bt+sg-opt")
POOLINGS = ("cls", "mean", "max")
PROJECTIONS = ("mlp", "tanh", "none")
EMBEDDERS = ("wk", "flow", "whitening", "pca", "prompt")
"""Embedders that are more than a pooling."""
LEARNING_EMBEDDERS = ("flow", "whitening", "pca")
"""Those that learn from text."""
PRECISIONS = ("auto", "float32", "tf32", "bf16", "fp16")
VECTORS = ("float32", "int8", "binary")
"""What vectors are stored as."""
DEVICES = ("auto", "cpu", "cuda", "mps")
TRACKERS = ("tensorboard", "wandb")
ENGINES = ("neural", "apertium")
TEXTS = ("raw", "senteval")
AGGREGATIONS = ("all", "mean", "wmean")
SICK_SPLITS = ("test", "all")
SST_TRAIN = ("phrases", "sentences")
TABLE_FORMATS = ("text", "markdown", "csv", "latex")

MEANING_TEMPLATE = '{mask} is the meaning of " {sentence} " .'
"""What the preset ``prompted`` lets the encoder read."""
READOUT_TEMPLATE = '{cls} This sentence : " {sentence} " means {mask} .'
"""What the embedder ``prompt`` lets the encoder read."""
