"""The names a user can choose from, in one place that imports nothing heavy; a test compares each with its catalogue."""

OBJECTIVES = ("sg", "opt1", "opt2", "sg-opt", "simcse", "bt", "bt+sg-opt")
POOLINGS = ("cls", "mean", "max")
PROJECTIONS = ("mlp", "tanh", "none")
PRECISIONS = ("auto", "float32", "tf32", "bf16", "fp16")
DEVICES = ("auto", "cpu", "cuda", "mps")
TRACKERS = ("tensorboard", "wandb")
TEXTS = ("raw", "senteval")
AGGREGATIONS = ("all", "mean", "wmean")
SICK_SPLITS = ("test", "all")
SST_TRAIN = ("phrases", "sentences")
TABLE_FORMATS = ("text", "markdown", "csv", "latex")
