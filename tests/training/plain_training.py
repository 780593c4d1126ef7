"""Self-guided training once more, written straight from the formulas of the paper with loops over sentences and layers.

Nothing of selfguide is used here: transformers' model and tokenizer, the equations, AdamW by hand.
"""

import copy
import math

import torch
from torch import nn
from transformers import AutoModel, AutoTokenizer


class PlainTraining:
    """Takes the steps of a run and keeps the losses."""

    def __init__(self, folder, *, objective, seed=1, width=32, temperature=0.01, distance_weight=0.1, clip=1.0,
                 weight_decay=0.01, betas=(0.9, 0.9), max_length=48, masked=False, template="[CLS] {sentence}"):  # fmt: skip
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.encoder = AutoModel.from_pretrained(folder, dtype=torch.float32, add_pooling_layer=False)
        self.guide = copy.deepcopy(self.encoder).eval()
        self.objective, self.temperature, self.distance_weight = objective, temperature, distance_weight
        self.clip, self.weight_decay, self.betas = clip, weight_decay, betas
        self.max_length, self.masked, self.template = max_length, masked, template
        draws = torch.Generator().manual_seed(seed)
        dim, std = self.encoder.config.hidden_size, self.encoder.config.initializer_range
        weights = [torch.empty(width, dim), torch.empty(width, width)]
        self.head = [(nn.Parameter(w.normal_(0, std, generator=draws)), nn.Parameter(torch.zeros(width))) for w in weights]
        self.layer_draws = torch.Generator().manual_seed(seed)
        trained = [p for name, p in self.encoder.named_parameters() if not name.startswith("embeddings.")]
        self.trained = [*trained, *(p for layer in self.head for p in layer)]
        self.moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self.trained]
        self.steps_taken = 0
        self.losses, self.norms = [], []

    def step(self, batches, rate):
        """One step on the mean of the losses of several batches of texts."""
        losses = [self.loss(texts) for texts in batches]
        mean = sum(losses) / len(losses)
        gradients = torch.autograd.grad(mean, self.trained)
        norm = math.sqrt(sum(float(g.double().square().sum()) for g in gradients))
        scale = self.clip / norm if self.clip and norm > self.clip else 1.0
        self.losses.append(mean.item())
        self.norms.append(norm)
        self.steps_taken += 1
        for parameter, gradient, (first, second) in zip(self.trained, gradients, self.moments, strict=True):
            self._adamw(parameter, gradient * scale, first, second, rate)

    def _adamw(self, parameter, gradient, first, second, rate):
        beta1, beta2 = self.betas
        first.mul_(beta1).add_((1 - beta1) * gradient)
        second.mul_(beta2).add_((1 - beta2) * gradient**2)
        mean, square = first / (1 - beta1**self.steps_taken), second / (1 - beta2**self.steps_taken)
        with torch.no_grad():
            if parameter.ndim > 1:
                parameter.sub_(rate * self.weight_decay * parameter)
            parameter.sub_(rate * mean / (square.sqrt() + 1e-8))

    def loss(self, texts):
        anchors = [self.f(self.run(self.encoder, text, self.template)[-1][0]) for text in texts]
        views = [[self.f(self.pooled(states)) for states in self.guide_states(text)] for text in texts]
        contrastive = {"sg-opt": self.sg_opt, "sg": self.sg}[self.objective](anchors, views, texts)
        return contrastive + self.distance_weight * self.distance()

    def run(self, model, text, template="[CLS] {sentence}"):
        """States of all layers of one sentence, so that there is no padding: each (tokens, dim)."""
        around = self.tokenizer(template.replace("{sentence}", "") + "[SEP]", add_special_tokens=False)["input_ids"]
        kept = self.tokenizer(text, add_special_tokens=False)["input_ids"][: self.max_length - len(around)]
        whole = template.replace("{sentence}", self.tokenizer.decode(kept)) + "[SEP]"
        tokens = self.tokenizer(whole, add_special_tokens=False, return_tensors="pt")
        return [states[0] for states in model(**tokens, output_hidden_states=True).hidden_states]

    def guide_states(self, text):
        with torch.no_grad():
            return self.run(self.guide, text)

    def pooled(self, states):
        return torch.stack([states[:, dimension].max() for dimension in range(states.shape[1])])

    def f(self, vector):
        for weight, bias in self.head:
            vector = weight @ vector + bias
            vector = vector * 0.5 * (1 + torch.erf(vector / math.sqrt(2)))
        return vector

    def phi(self, left, right):
        """The exponent of phi alone, as exp would overflow: cos / temperature."""
        return left @ right / (left.norm() * right.norm()) / self.temperature

    def sg_opt(self, anchors, views, texts):
        terms = []
        for i, anchor in enumerate(anchors):
            others = [m for m in range(len(anchors)) if m != i and not (self.masked and texts[m] == texts[i])]
            negatives = [self.phi(anchor, view) for m in others for view in views[m]]
            for view in views[i]:
                positive = self.phi(anchor, view)
                terms.append(torch.logsumexp(torch.stack([positive, *negatives]), 0) - positive)
        return sum(terms) / len(terms)

    def sg(self, anchors, views, texts):
        layers = torch.randint(len(views[0]), (len(anchors),), generator=self.layer_draws).tolist()
        both = [*anchors, *(views[i][layer] for i, layer in enumerate(layers))]
        size = len(anchors)
        terms = []
        for m, vector in enumerate(both):
            partner = (m + size) % (2 * size)
            denominator = [self.phi(vector, both[n]) for n in range(2 * size) if n != m]
            terms.append(torch.logsumexp(torch.stack(denominator), 0) - self.phi(vector, both[partner]))
        return sum(terms) / len(terms)

    def distance(self):
        pairs = zip(self.encoder.parameters(), self.guide.parameters(), strict=True)
        return sum(((own - reference) ** 2).sum() for own, reference in pairs)
