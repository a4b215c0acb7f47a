"""The classes of the errors and what they carry."""

from __future__ import annotations

import pickle

import pytest

import pycoll
from pycoll import _lib, errors


def test_classes_are_also_the_builtin_ones():
    for name, base in {
        "CollTimeoutError": TimeoutError,
        "MismatchError": ValueError,
        "ConfigError": ValueError,
        "ArgumentError": ValueError,
        "DatatypeError": TypeError,
        "OutOfMemoryError": MemoryError,
        "RankFailedError": RuntimeError,
        "CommClosedError": RuntimeError,
        "BootstrapError": RuntimeError,
    }.items():
        kind = getattr(pycoll, name)
        assert issubclass(kind, pycoll.CollError) and issubclass(kind, base) and issubclass(kind, RuntimeError)


def test_attributes_survive_pickling():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.CollError)]
    assert len(kinds) > 10
    for kind in kinds:
        error = kind("a message", code=-4, ranks=[2, 3], operation="allreduce", sequence=17)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind and str(again) == "a message"
        assert (again.code, again.ranks, again.operation, again.sequence) == (-4, (2, 3), "allreduce", 17)


def test_every_status_has_its_class():
    codes = {name: getattr(_lib.lib, name) for name in dir(_lib.lib) if name.startswith("COLL_ERR_")}
    assert len(codes) > 15
    for name, code in codes.items():
        error = _lib.error(code)
        assert isinstance(error, pycoll.CollError) and error.code == code, name
        assert _lib.text(_lib.lib.coll_status_name(code)) == name
    with pytest.raises(pycoll.CollTimeoutError):
        _lib.check(_lib.lib.COLL_ERR_TIMEOUT)
    assert _lib.check(3) == 3
