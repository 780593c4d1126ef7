import pytest
import torch

from selfguide.devices import choose_device, fast_products, product_precision
from selfguide.errors import InputError


def test_auto_is_a_device_of_this_machine():
    assert choose_device("auto").type in ("cpu", "cuda", "mps")
    assert choose_device("cpu") == torch.device("cpu")


def test_unknown_and_absent_devices(monkeypatch):
    with pytest.raises(InputError, match="device 'gpu' is not known; choose one of: auto, cpu, cuda, mps"):
        choose_device("gpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="--device cuda was asked for, but this machine has only: cpu"):
        choose_device("cuda")


@pytest.mark.parametrize(("device", "inside", "name"), [("cuda", "high", "tf32"), ("cpu", "highest", "float32")])
def test_fast_products_are_for_cuda_and_end_with_the_block(device, inside, name):
    before = torch.get_float32_matmul_precision()
    assert before == "highest"
    with pytest.raises(KeyError), fast_products(torch.device(device)):
        assert torch.get_float32_matmul_precision() == inside
        raise KeyError
    assert torch.get_float32_matmul_precision() == before
    assert product_precision(torch.device(device)) == name
