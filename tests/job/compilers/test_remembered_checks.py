"""Which vector instructions work is asked once, and kept with the compile cache."""

from __future__ import annotations

from pathlib import Path

import pytest
from torch._inductor.cpu_vec_isa import VecAVX2, VecISA, VecNEON

from compilegate.job.cache import CacheFolder
from compilegate.job.compilers.torch_compile.inductor import kept_cache

pytestmark = pytest.mark.slow


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> CacheFolder:
    """A cache that is kept, in which answers are noted from here on."""
    monkeypatch.setattr(VecISA, "_probe_load", VecISA._probe_load)  # put back afterwards
    folder = kept_cache()
    assert folder is not None
    return folder


@pytest.mark.slow
def test_what_loads_is_noted_and_not_asked_again(asked: CacheFolder) -> None:
    isa = next(each for each in (VecAVX2(), VecNEON()) if each.check_build(VecISA._avx_code))
    noted = [path for path in asked.files() if path.endswith(".loads")]
    assert len(noted) == 1
    library = asked.path / noted[0][: -len(".loads")]
    library.write_bytes(b"no library at all")  # nobody looks
    assert isa.check_build(VecISA._avx_code)


@pytest.mark.usefixtures("asked")
def test_what_does_not_load_is_not_noted(tmp_path: Path) -> None:
    library = tmp_path / "broken.so"
    library.write_bytes(b"no library at all")
    assert not VecAVX2()._probe_load(str(library))
    assert list(tmp_path.iterdir()) == [library]
