"""What lies in the image folders: each says what it extends, and installs what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from compilegate.pipelines.images import ImageFolderError, image_folders, image_tags

PROJECT = Path(__file__).parents[2]
CONTAINERS = PROJECT / "containers"
FOLDERS = image_folders(CONTAINERS)
HADOLINT = Path(sys.executable).with_name("hadolint")


def requirements(path: Path) -> dict[str, Requirement]:
    """The requirements of a file by normalised name, without options, digests and comments."""
    lines = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    texts = (re.split(r"\s#|\s--hash", line)[0].strip() for line in lines)
    found = [Requirement(text) for text in texts if text and not text.startswith("#")]
    return {requirement.name.lower().replace("_", "-"): requirement for requirement in found}


def pinned(path: Path) -> dict[str, str]:
    """Version by name, of a file in which everything is pinned."""
    versions = {}
    for name, requirement in requirements(path).items():
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"{path}: {requirement} is not pinned"
        versions[name] = specifier.version
    return versions


def test_the_images_extend_what_they_are_for() -> None:
    assert {name: image.base_uri("us-east-1") for name, image in FOLDERS.items()} == {
        "gate": "public.ecr.aws/docker/library/python:3.12-slim-bookworm",
        "neuron": (
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training-neuronx:"
            "2.9.0-neuronx-py312-sdk2.29.0-ubuntu24.04"
        ),
        "training": (
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch:2.13-cu133-amzn2023-sagemaker"
        ),
        "training-compiler": (
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-trcomp-training:1.13.1-gpu-py39"
        ),
        "xgboost": (
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch:2.13-cpu-amzn2023-sagemaker"
        ),
    }


def test_a_region_without_the_base_is_refused_with_what_to_do() -> None:
    with pytest.raises(ImageFolderError) as refused:
        FOLDERS["training-compiler"].base_uri("cn-north-1")
    text = str(refused.value)
    assert "AWS has no image pytorch-training-compiler 1.13.1 (gpu) in cn-north-1" in text
    assert text.endswith("in infra/settings.toml, or remove the folder if nothing uses it")


@pytest.mark.slow
def test_a_dockerfile_has_nothing_that_hadolint_finds(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python\nRUN pip install numpy\n")
    files = [*(CONTAINERS / name / "Dockerfile" for name in FOLDERS), tmp_path / "Dockerfile"]
    done = subprocess.run([HADOLINT, *files], capture_output=True, text=True, check=False)
    assert "DL3006" in done.stdout, "hadolint must find the fault that was put there"
    assert [line for line in done.stdout.splitlines() if str(tmp_path) not in line] == []


@pytest.mark.parametrize("name", FOLDERS)
def test_the_build_sees_what_is_copied_and_installs_nothing_without_a_digest(name: str) -> None:
    """What needs an index checks digests; what checks none has no index."""
    folder = CONTAINERS / name
    copied = re.search(r"^COPY (.+) /opt/compilegate/$", (folder / "Dockerfile").read_text(), re.M)
    assert copied is not None
    let_in = (folder / ".dockerignore").read_text().split("*\n")[1].splitlines()
    assert let_in == [f"!{file}" for file in copied[1].split()]
    assert all((folder / file).is_file() for file in copied[1].split())

    text = (CONTAINERS / name / "Dockerfile").read_text().replace("\\\n", " ")
    commands = re.findall(r"-m pip (?:install|download)[^&]*", text)
    assert commands
    for command in commands:
        assert "--no-index" in command or "--require-hashes" in command
    assert not re.search(r"curl|wget|apt-get|dnf|yum|conda", text)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_lock_covers_the_requirements_with_digests(name: str) -> None:
    """All but the torch of the base, which stays."""
    path = CONTAINERS / name / "requirements.lock"
    locked, wanted = pinned(path), requirements(CONTAINERS / name / "requirements.txt")
    torch = wanted.pop("torch", None)
    for package, requirement in wanted.items():
        assert requirement.specifier.contains(locked[package]), package
    assert "torch" not in locked
    entries = path.read_text().split("\n    # via")
    assert sum("==" in entry for entry in entries) == len(locked) > 0
    assert all("--hash=sha256:" in entry for entry in entries if "==" in entry)
    base = FOLDERS[name].base
    if torch is not None and not isinstance(base, str):
        version = base.version if base.version.count(".") == 2 else f"{base.version}.0"
        assert torch.specifier.contains(version)


@pytest.mark.parametrize("name", sorted({*FOLDERS} - {"training-compiler"}))
def test_the_images_install_the_versions_that_the_tests_pass_with(name: str) -> None:
    here = pinned(PROJECT / "constraints.txt")
    for package, version in pinned(CONTAINERS / name / "requirements.lock").items():
        assert here.get(package, version) == version, package


def folder_in(root: Path, name: str, **files: str) -> Path:
    """An image folder of these files, whose names have no suffix but `.toml` and `.txt`."""
    folder = root / name
    folder.mkdir()
    for file, text in files.items():
        (folder / file.replace("_", ".")).write_text(text)
    return folder


DOCKERFILE = "ARG BASE_IMAGE\nFROM ${BASE_IMAGE}\n"


def test_an_image_is_another_one_when_a_file_or_its_base_is(tmp_path: Path) -> None:
    shutil.copytree(CONTAINERS / "gate", tmp_path / "gate")
    before = image_tags(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{16}", before["gate"])
    bases = [{"gate": f"example.com/python:3.{minor}"} for minor in (12, 13)]
    tags = [image_tags(tmp_path, each)["gate"] for each in bases]
    dockerfile = tmp_path / "gate" / "Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("FROM", "From", 1))  # as long as before
    assert len({before["gate"], image_tags(tmp_path)["gate"], *tags}) == 4


def test_a_folder_without_a_dockerfile_is_an_environment_and_no_image(tmp_path: Path) -> None:
    folder_in(tmp_path, "xla", requirements_txt="torch\n")
    assert image_folders(tmp_path) == {}
    assert list(image_tags(tmp_path)) == ["xla"]
    shutil.copytree(CONTAINERS / "gate", tmp_path / "My_Gate")
    with pytest.raises(ImageFolderError, match=r"found an image folder 'My_Gate', allowed: lower"):
        image_folders(tmp_path)
    with pytest.raises(ImageFolderError, match=r"images\.base names 'gat', and"):
        image_folders(CONTAINERS, {"gat": "a/b:1"})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "does not exist, and a Dockerfile lies beside it"),
        ("base = ", "not valid TOML"),
        ("[base]\n", "base.framework is missing"),
        ('[base]\nimage = "python"\n', "base.image is 'python', expected an image with a tag"),
        (
            '[base]\nimage = "a/b:1"\nframework = "pytorch"\n',
            "base.framework is not a known key, expected image",
        ),
        (
            '[base]\nframework = "pytorch"\nversion = "9.9"\n',
            "base: the catalog has no image pytorch 9.9 (gpu); it has pytorch 2.10.0 (gpu)",
        ),
        ('[bases]\nimage = "a/b:1"\n', "base is missing"),
    ],
)
def test_what_is_wrong_with_an_image_file_is_one_sentence(
    tmp_path: Path, text: str | None, sentence: str
) -> None:
    files = {} if text is None else {"image_toml": text}
    folder = folder_in(tmp_path, "mine", Dockerfile=DOCKERFILE, **files)
    with pytest.raises(ImageFolderError) as refused:
        image_tags(tmp_path)
    assert str(refused.value).startswith(str(folder / "image.toml"))
    assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "image",
    ["python:3.12", "localhost:5000/a/b:1", "public.ecr.aws/docker/library/python@sha256:0a"],
)
def test_a_base_is_named_with_a_tag_or_a_digest(tmp_path: Path, image: str) -> None:
    text = f'[base]\nimage = "{image}"\n'
    folder_in(tmp_path, "mine", Dockerfile=DOCKERFILE, image_toml=text)
    assert image_folders(tmp_path)["mine"].base_uri("us-east-1") == image
