"""The library of users' functions: from CREATE FUNCTION and entry points to what plans know of a
function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from parser.errors import JobError, PlanError, SqlError, UnsupportedError
from parser.statements import CreateFunction
from sqlengine.functions.callable_here import make_callable
from sqlengine.functions.limits import FunctionLimits
from sqlengine.functions.pool import POOL
from sqlengine.functions.store import ModuleStore, Sources, collect, inside, installed
from sqlengine.system.plugins import FUNCTIONS, points
from udf.user import UserFunction, type_named

NO_UPLOADS: Mapping[str, str] = {}
# A version of a job knows a function of a package as `entry point NAME=MODULE.FUNCTION`.
ENTRY = "entry point "


@dataclass(frozen=True)
class Library:
    """Finds, stores and loads users' modules. It is pickled to the process that plans.

    `store`: where sources are kept by content; `folders`: where modules may come from. `anywhere`:
    also from any file and installed package, for scripts that their own user runs."""

    store: Path
    folders: tuple[Path, ...]
    anywhere: bool = False
    limits: FunctionLimits = field(default_factory=FunctionLimits)

    def load(
        self,
        statement: CreateFunction,
        pinned: Mapping[str, str],
        uploads: Mapping[str, str] = NO_UPLOADS,
    ) -> UserFunction:
        """Loads the function that the statement names.

        Its sources are those of the content that `pinned` has for its module, else those in
        `uploads` (sources by file name), else the files as they are now. SqlError says what is
        missing or wrong."""
        place = checked_place(statement.class_name)
        content = pinned.get(key_of(statement))
        if content is None:
            sources = uploaded(place, statement.file, uploads)
            content = self._keep(sources or self._find(place, statement.file))
        return self._function(content, place)

    def entry_points(self) -> Iterable[tuple[str, UserFunction | SqlError]]:
        """Yields the functions of installed packages by name; the reason where one is unusable."""
        for point in points(FUNCTIONS).values():
            place = point.value.replace(":", ".")
            try:
                sources = self._installed(place)
                if sources is None:
                    raise JobError(
                        f"module '{point.module}' of entry point '{point.name}' is not installed"
                    )
                yield point.name.lower(), self._function(self._keep(sources), place)
            except SqlError as error:
                yield point.name.lower(), error

    def unchanged(self, modules: Mapping[str, str]) -> bool:
        """True if modules have the contents of a version (`JobVersion.modules`) now."""
        try:
            return all(self._now(key) == content for key, content in modules.items())
        except SqlError:  # it is planned anew, and that says what is missing
            return False

    def edited(self, key: str, content: str) -> bool:
        """True if a module of a version is in a folder with another content now."""
        try:
            return not key.startswith(ENTRY) and self._now(key) != content
        except SqlError:  # it is not there any more, or came with a request
            return False

    def _now(self, key: str) -> str:
        if key.startswith(ENTRY):
            sources = self._installed(place_of(key))
            return sources.content if sources is not None else ""
        file = key if key.endswith(".py") else None
        module = Path(key).stem if file else key
        return self._find(f"{module}.f", file).content

    def pinned(self, modules: Mapping[str, str]) -> Iterable[tuple[str, UserFunction]]:
        """Yields functions of packages by name, as they were when a version was submitted."""
        for key, content in modules.items():
            if key.startswith(ENTRY):
                yield (
                    key.removeprefix(ENTRY).partition("=")[0],
                    self._function(content, place_of(key)),
                )

    def activate(self, functions: Iterable[UserFunction]) -> None:
        """Makes functions callable in this process, and their workers ready."""
        for function in functions:
            host = POOL.add(
                function.content, ModuleStore(self.store).sources(function.content), self.limits
            )
            make_callable(function)
            host.start()

    def _keep(self, sources: Sources) -> str:
        ModuleStore(self.store).put(sources)
        return sources.content

    def _function(self, content: str, place: str) -> UserFunction:
        store = ModuleStore(self.store)
        known = store.function(content, place)
        if known is None:
            host = POOL.add(content, store.sources(content), self.limits)
            known = _understood(host.describe(place), content, place)
            store.learn(known)
        return known

    def _find(self, place: str, file: str | None) -> Sources:
        module = place.rpartition(".")[0]
        if file is not None:
            return self._file(module, file)
        for folder in self.folders:
            sources = collect(module, folder)
            if sources is not None:
                self._check(folder, sources, f"module '{module}'")
                return sources
        sources = self._installed(place) if self.anywhere else None
        if sources is None:
            looked = ", ".join(f"'{f}'" for f in self.folders) or "no folder"
            hint = f"put {module.partition('.')[0]}.py there, or name it: USING FILE '…'"
            sent = "; or send it: sql submit --functions FOLDER, to a server with --uploads"
            raise JobError(
                f"there is no module '{module}'",
                detail=f"looked in {looked}",
                hint=hint if self.anywhere else hint + sent,
            )
        return sources

    def _file(self, module: str, file: str) -> Sources:
        paths = [Path(file)] if Path(file).is_absolute() else [f / file for f in self.folders]
        path = next((p for p in paths if p.is_file()), None)
        if path is None or (not self.anywhere and not inside(path, self.folders)):
            self._refuse(f"file '{file}'", missing=path is None)
        assert path is not None
        if path.suffix != ".py" or path.stem != module:
            raise JobError(
                f"module '{module}' is not what '{file}' holds",
                detail="the module of a file m.py is m",
                hint=f"write AS '{path.stem}.…'",
            )
        sources = collect(module, path.parent)
        assert sources is not None
        self._check(path.parent, sources, f"file '{file}'")
        return sources

    def _installed(self, place: str) -> Sources | None:
        folder = installed(place)
        return None if folder is None else collect(place.rpartition(".")[0], folder, siblings=False)

    def _check(self, folder: Path, sources: Sources, what: str) -> None:
        """Links do not lead out of the folders."""
        if not self.anywhere and not all(
            inside(folder / name, self.folders) for name in sources.files
        ):
            self._refuse(what, missing=False)

    def _refuse(self, what: str, *, missing: bool) -> None:
        folders = ", ".join(f"'{f}'" for f in self.folders)
        if missing and self.anywhere:
            raise JobError(f"{what} does not exist", detail=f"looked in {folders}")
        raise JobError(
            f"{what} is not in the folder that functions come from",
            detail=f"that is {folders}",
            hint="put the file there, or start the server with --functions DIR",
        )


def uploaded(place: str, file: str | None, uploads: Mapping[str, str]) -> Sources | None:
    """Returns the uploaded sources, if the module is among them: all uploads of a request belong to
    it."""
    name = f"{place.partition('.')[0]}.py"
    if name not in uploads or file not in (None, name):
        return None
    bad = next(
        (n for n in uploads if not n.endswith(".py") or not n.removesuffix(".py").isidentifier()),
        None,
    )
    if bad is not None:
        raise JobError(
            f"'{bad}' is not the name of a module",
            hint="upload files such as 'text_tools.py', without a folder",
        )
    return Sources({n: text.encode() for n, text in uploads.items()})


def key_of(statement: CreateFunction) -> str:
    """Returns the key of a statement's module in a job's version."""
    return statement.file or statement.class_name.rpartition(".")[0]


def entry_key(name: str, place: str) -> str:
    return f"{ENTRY}{name}={place}"


def place_of(key: str) -> str:
    return key.partition("=")[2]


def checked_place(text: str) -> str:
    """Returns 'module.name' as it is; PlanError for any other text."""
    parts = text.split(".")
    if len(parts) < 2 or not all(p.isidentifier() for p in parts):
        raise PlanError(
            f"'{text}' is not module.name", hint="write AS 'module.function' LANGUAGE PYTHON"
        )
    return text


def _understood(answer: Mapping[str, object], content: str, place: str) -> UserFunction:
    """Converts the worker's answer to a function whose types exist."""
    if "error" in answer:
        hint = answer["hint"]
        text = str(hint) if hint else None
        raise JobError(f"function '{place}' cannot be used", detail=str(answer["error"]), hint=text)
    spec = answer["spec"]
    assert isinstance(spec, dict)
    function = msgspec.convert({**spec, "place": place, "content": content}, UserFunction)
    for parameter in function.parameters:
        _check_type(place, f"parameter '{parameter.name}'", parameter.type)
    _check_type(place, "the result", function.result)
    if function.kind in ("table", "process") and not function.result_type.names:
        raise UnsupportedError(
            f"function '{place}' cannot be used",
            detail=f"a {function.kind} function's result type is a ROW<…>",
        )
    return function


def _check_type(place: str, what: str, text: str) -> None:
    try:
        type_named(text)
    except SqlError as error:
        detail = f"{what}: {error.message}" + (f" ({error.detail})" if error.detail else "")
        raise JobError(
            f"function '{place}' cannot be used", detail=detail, hint=error.hint
        ) from None
