"""Data with the columns of public data sets, made here: what public pipelines read from buckets and
downloads that cannot be reached offline. What a pipeline learns from it means nothing.
"""

from __future__ import annotations

import gzip
import io
import random
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence

_ROWS = 800
_REGIONS = ("us-east-1", "us-west-2")

Column = Sequence[str] | tuple[float, float] | tuple[int, int]
"""Words of which one stands in a cell, or the bounds of its numbers: whole where both are."""


def made(kind: str) -> bytes:
    """The content of one kind. Raises KeyError for a kind that is not made here."""
    return _KINDS[kind]()


def public_objects() -> Iterator[tuple[str, bytes]]:
    """(URI, content) of what AWS's own examples read from AWS's own buckets."""
    for region in _REGIONS:
        seeds = f"s3://sagemaker-servicecatalog-seedcode-{region}/dataset"
        yield f"{seeds}/abalone-dataset.csv", made("abalone")
        yield f"{seeds}/abalone-dataset-batch", made("abalone-batch")
        for bucket in ("sagemaker-sample-files", f"sagemaker-example-files-prod-{region}"):
            tables = f"s3://{bucket}/datasets/tabular"
            yield f"{tables}/uci_abalone/abalone.csv", made("abalone")
            yield f"{tables}/uci_abalone/abalone.libsvm", made("abalone-libsvm")
            yield f"{tables}/synthetic/churn.txt", made("churn")
            yield f"{tables}/california_housing/cal_housing.tgz", made("housing-archive")
            cards = "synthetic_credit_card_transactions/user0_credit_card_transactions.csv"
            yield f"{tables}/{cards}", made("cards")
            yield f"{tables}/breast_cancer/wdbc.csv", made("wdbc")


def csv_of(columns: Mapping[str, Column], header: bool = True, seed: int = 17) -> bytes:
    """A table; its last column follows its first number, so that there is something to learn."""
    chance = random.Random(seed)  # noqa: S311  no secret
    lines = [",".join(columns)] if header else []
    for _ in range(_ROWS):
        lines.append(",".join(_row(columns, chance)))
    return ("\n".join(lines) + "\n").encode()


def _row(columns: Mapping[str, Column], chance: random.Random) -> list[str]:
    shares = [chance.random() for _ in columns]
    leading = next(
        share
        for share, column in zip(shares, columns.values(), strict=True)
        if not isinstance(column[0], str)
    )
    shares[-1] = min(0.999, max(0.0, leading + chance.gauss(0, 0.05)))
    return [_cell(column, share) for column, share in zip(columns.values(), shares, strict=True)]


def _cell(column: Column, share: float) -> str:
    low, high = column[0], column[-1]
    if isinstance(low, str) or isinstance(high, str):
        return str(column[int(share * len(column))])
    if isinstance(low, int) and isinstance(high, int):
        return str(low + int(share * (high - low + 1)))
    return f"{low + share * (high - low):.4f}"


def _one_abalone(chance: random.Random) -> list[str]:
    length = round(chance.uniform(0.1, 0.8), 3)
    weight = 2.5 * length**3
    parts = [length, length * 0.8, length * 0.28, weight, weight * 0.43, weight * 0.22]
    rings = max(1, round(3 + 14 * length + chance.gauss(0, 1)))
    measures = [f"{part:.4f}" for part in [*parts, weight * 0.29]]
    return [chance.choice("MFI"), *measures, str(rings)]


def _abalone() -> bytes:
    """Sex, seven measures, rings: no header, as the public file."""
    chance = random.Random(17)  # noqa: S311  no secret
    return "".join(",".join(_one_abalone(chance)) + "\n" for _ in range(_ROWS)).encode()


def _abalone_batch() -> bytes:
    """What the example's own preparation makes of it: ten numbers a line, no answer."""
    return csv_of({f"x{n}": (-2.0, 2.0) for n in range(10)}, header=False)


def _abalone_libsvm() -> bytes:
    chance = random.Random(18)  # noqa: S311  no secret
    lines = []
    for _ in range(_ROWS):
        sex, *measures, rings = _one_abalone(chance)
        cells = [str("MFI".index(sex) + 1), *measures]
        lines.append(" ".join([rings, *(f"{n}:{cell}" for n, cell in enumerate(cells, 1))]))
    return ("\n".join(lines) + "\n").encode()


def _archive(name: str, content: bytes) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    return gzip.compress(target.getvalue(), mtime=0)


_YES_NO = ("no", "yes")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_DATES = tuple(f"20{year:02d}-{month:02d}-15" for year in range(10, 17) for month in range(1, 13))
_WINDS = ("N", "E", "S", "W")

_CHURN: Mapping[str, Column] = {
    "State": ("PA", "SC"),
    "Account Length": (1, 200),
    "Area Code": (657, 878),
    "Phone": ("111-1111", "222-2222"),
    "Int'l Plan": _YES_NO,
    "VMail Plan": _YES_NO,
    "VMail Message": (0, 60),
    **{
        f"{part} {what}": (0, 12) for part in ("Day", "Eve") for what in ("Mins", "Calls", "Charge")
    },
    **{
        f"{part} {what}": (0, 12)
        for part in ("Night", "Intl")
        for what in ("Mins", "Calls", "Charge")
    },
    "CustServ Calls": (0, 12),
    "Churn?": ("False.", "True."),
}
_HOUSING: Mapping[str, Column] = {
    "longitude": (-124.0, -114.0),
    "latitude": (32.0, 42.0),
    "age": (1.0, 52.0),
    "rooms": (2.0, 9000.0),
    "bedrooms": (1.0, 2000.0),
    "population": (3.0, 9000.0),
    "households": (1.0, 2000.0),
    "income": (0.5, 15.0),
    "value": (15000.0, 500000.0),
}
_STORE: Mapping[str, Column] = {
    "custid": (1000, 99999),
    "esent": (0, 50),
    "eopenrate": (0.0, 100.0),
    "eclickrate": (0.0, 100.0),
    "avgorder": (10.0, 200.0),
    "ordfreq": (0.0, 1.0),
    "paperless": (0, 1),
    "refill": (0, 1),
    "doorstep": (0, 1),
    "favday": _DAYS,
    "city": ("BLR", "BOM", "DEL", "MAA"),
    "created": _DATES,
    "firstorder": _DATES,
    "lastorder": _DATES,
    "retained": (0, 1),
}
_WEATHER: Mapping[str, Column] = {
    "Date": _DATES,
    "Location": ("Albury", "Perth", "Sydney"),
    "MinTemp": (-5.0, 30.0),
    "MaxTemp": (0.0, 45.0),
    "Rainfall": (0.0, 20.0),
    "Evaporation": (0.0, 20.0),
    "Sunshine": (0.0, 14.0),
    "WindGustDir": _WINDS,
    "WindGustSpeed": (6.0, 100.0),
    "WindDir9am": _WINDS,
    "WindDir3pm": _WINDS,
    "WindSpeed9am": (0.0, 60.0),
    "WindSpeed3pm": (0.0, 60.0),
    "Humidity9am": (0.0, 100.0),
    "Humidity3pm": (0.0, 100.0),
    "Pressure9am": (980.0, 1040.0),
    "Pressure3pm": (980.0, 1040.0),
    "Cloud9am": (0.0, 8.0),
    "Cloud3pm": (0.0, 8.0),
    "Temp9am": (-5.0, 38.0),
    "Temp3pm": (-5.0, 45.0),
    "RainToday": ("No", "Yes"),
    "RainTomorrow": ("No", "Yes"),
}
_MAMMOGRAPHY: Mapping[str, Column] = {
    "BIRADS": (1, 5),
    "Age": (18, 96),
    "Shape": (1, 4),
    "Margin": (1, 5),
    "Density": (1, 4),
    "Severity": (0, 1),
}
_CARDS: Mapping[str, Column] = {
    "User": (0, 0),
    "Card": (0, 4),
    "Year": (2002, 2020),
    "Month": (1, 12),
    "Day": (1, 28),
    "Time": ("06:21", "13:10"),
    "Amount": ("$134.09", "$38.48", "$120.34"),
    "Use Chip": ("Swipe Transaction", "Chip Transaction", "Online Transaction"),
    "Merchant Name": (1000, 9999),
    "Merchant City": ("La Verne", "Monterey Park"),
    "Merchant State": ("CA", "NY"),
    "Zip": (10000.0, 99999.0),
    "MCC": (3000, 7000),
    "Errors?": ("", "Technical Glitch"),
    "Is Fraud?": ("No", "Yes"),
}
_ADULT: Mapping[str, Column] = {
    "age": (17, 90),
    "workclass": ("Private", "State-gov"),
    "fnlwgt": (12285, 1484705),
    "education": ("Bachelors", "HS-grad"),
    "education-num": (1, 16),
    "marital-status": ("Divorced", "Never-married"),
    "occupation": ("Sales", "Tech-support"),
    "relationship": ("Husband", "Own-child"),
    "race": ("Black", "White"),
    "sex": ("Female", "Male"),
    "capital-gain": (0, 99999),
    "capital-loss": (0, 4356),
    "hours-per-week": (1, 99),
    "native-country": ("Canada", "United-States"),
    "income": ("<=50K", ">50K"),
}

_BIKES: Mapping[str, Column] = {
    "instant": (1, 17379),
    "dteday": _DATES,
    "season": (1, 4),
    "yr": (0, 1),
    "mnth": (1, 12),
    "hr": (0, 23),
    "holiday": (0, 1),
    "weekday": (0, 6),
    "workingday": (0, 1),
    "weathersit": (1, 4),
    "temp": (0.0, 1.0),
    "atemp": (0.0, 1.0),
    "hum": (0.0, 1.0),
    "windspeed": (0.0, 1.0),
}
_TRANSACTIONS: Mapping[str, Column] = {
    "TransactionID": (2987000, 3987000),
    "TransactionDT": _DATES,
    "TransactionAmt": (1.0, 500.0),
    "ProductCD": ("C", "W"),
    "card_no": (1000, 1040),
    "card_type": ("credit", "debit"),
    "email_domain": ("gmail.com", "yahoo.com"),
    "isFraud": (0, 1),
}


def _bikes() -> bytes:
    """Hours with their riders: the casual ones and the registered ones are all."""
    head, *lines = csv_of(_BIKES).decode().splitlines()
    counted = [f"{head},casual,registered,cnt"]
    for number, line in enumerate(lines):
        casual, registered = number % 30, int(100 * float(line.split(",")[10]))
        counted.append(f"{line},{casual},{registered},{casual + registered}")
    return ("\n".join(counted) + "\n").encode()


_ANSWERS = b"""
def model_fn(model_dir):
    return 9.0


def transform_fn(model, data, content_type, accept):
    return "".join(f"{model}\\n" for _ in data.splitlines()), "text/csv"
"""
"""A model's code; it says of every abalone that it has nine rings."""

_SETTINGS = b"""SchemaVersion: '1.0'
SageMaker:
  PythonSDK:
    Modules:
      RemoteFunction:
        InstanceType: ml.m5.xlarge
        Dependencies: ./requirements.txt
        IncludeLocalWorkDir: true
        CustomFileFilter:
          IgnoreNamePatterns: ["data/*", "models/*", "*.ipynb", "__pycache__"]
"""
"""The SDK's own settings, as a notebook writes them that asks AWS for its user."""

_TWEETS: Mapping[str, Column] = {
    "length": (1, 140),
    "text": ("a fine morning", "rain again today", "nothing to say", "what a good match"),
    "Sentiment": ("Negative", "Neutral", "Positive"),
}
_WDBC: Mapping[str, Column] = {
    "id": (8670, 911320502),
    "diagnosis": ("B", "M"),
    **{f"measure {number}": (0.0, 30.0) for number in range(30)},
}

_KINDS: Mapping[str, Callable[[], bytes]] = {
    "abalone": _abalone,
    "abalone-batch": _abalone_batch,
    "abalone-libsvm": _abalone_libsvm,
    "abalone-model": lambda: _archive("code/inference.py", _ANSWERS),
    "adult": lambda: csv_of(_ADULT, header=False),
    "bikes": _bikes,
    "cards": lambda: csv_of(_CARDS),
    "churn": lambda: csv_of(_CHURN),
    "housing-archive": lambda: _archive(
        "CaliforniaHousing/cal_housing.data", csv_of(_HOUSING, header=False)
    ),
    "mammography": lambda: csv_of(_MAMMOGRAPHY, header=False),
    "sdk-settings": lambda: _SETTINGS,
    "store": lambda: csv_of(_STORE),
    "transactions": lambda: csv_of(_TRANSACTIONS),
    "tweets": lambda: csv_of(_TWEETS),
    "wdbc": lambda: csv_of(_WDBC, header=False),
    "weather": lambda: csv_of(_WEATHER),
}
