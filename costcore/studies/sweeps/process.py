"""Compute rows in other processes: on this machine, or with the workers of joblib, Dask or Ray.

If a model ends its process, hangs or fills its memory, its row says so, and the process is started again. Source hashes
identify models in resumed tables. The imports of a model show which frontends its process should load.
"""

from __future__ import annotations

import ast
import hashlib
import os
import pickle
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, requires, version
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO, Any, NamedTuple, TypeAlias, cast

from costcore.api.estimate import runs_code
from costcore.errors import CostError, FileError, error_text
from costcore.files import open_file, read_file, unreadable
from costcore.isolated import python_command
from costcore.registry import frontend_for_file, loaded, specs
from costcore.studies.sweeps.rows import ModelRow, NamedModel, Settings, failure, read_frame, row_of, write_frame

_CODE = "from costcore.studies.sweeps.child import main; main({limit!r}, {path!r})"
"""The code that a child process runs; it gets the module search path of this process."""

QUICK = 0.05
"""While rows take less than these seconds, a process gets its next task ahead: no idle one could begin much earlier."""

SMALL = 1 << 15
"""The maximum bytes of a task sent ahead."""

UNREADABLE = (ArithmeticError, AttributeError, EOFError, ImportError, LookupError, MemoryError, TypeError, ValueError)
"""The exceptions of reading an invalid reply, besides those of pickle."""

GRACE = 0.5
"""Seconds to wait for a silent process to end by itself, so that its row has the exit code."""


class ModelProcess:
    """A process that computes one row after the other; started when needed, and again after a model ended it.

    Args:
        memory_limit: the bytes of memory that it may allocate, including Python and the framework; None for no limit.
    """

    def __init__(self, memory_limit: int | None = None) -> None:
        self._limit = memory_limit
        self._child: _Child | None = None
        self._is_interrupted = False

    def rows(self, tasks: Iterator[Task]) -> Iterator[tuple[int, ModelRow]]:
        """Yield the position and the row of every task, one after the other.

        While rows are quick, the next task is sent before the present row arrives, so that the process does not wait.
        It is sent again, to another process, if the present model ends this one.
        """
        task, is_sent, is_quick = next(tasks, None), False, False
        while task is not None:
            following, start = None, time.monotonic()
            row = task.content if isinstance(task.content, ModelRow) else self._started(task, is_sent)
            is_sent = False
            if isinstance(row, _Child):
                with _Limit(row, task.plan.timeout) as limit:
                    if is_quick and (following := next(tasks, None)) is not None:
                        is_sent = row.takes_ahead(following)
                    reply = read_frame(row.replies)
                row = self._row(reply, row, limit)
            is_quick = time.monotonic() - start < QUICK
            yield task.position, row._replace(name=task.name)
            task = following or next(tasks, None)

    def _row(self, reply: bytes | None, child: _Child, limit: _Limit) -> ModelRow:
        if reply is None:
            reason = limit.text if limit.is_over else child.how_it_ended()
            self.close()
            return ModelRow("", {}, reason, failed=True)
        try:
            row: ModelRow = pickle.loads(reply)
            is_row = isinstance(row, ModelRow)
        except (*UNREADABLE, pickle.UnpicklingError):
            is_row = False
        if not is_row:  # the model patched built-in functions or pickle
            self.close()
            return ModelRow("", {}, "worker returned an invalid result", failed=True)
        if row.is_out_of_memory:  # its process ends, so that the next model starts with empty memory
            self.close()
            row = row._replace(status=row.status + self._limit_text())
        return row

    def interrupt(self) -> None:
        """End the process, also while another thread waits for its row; no process is started again."""
        self._is_interrupted = True
        if (child := self._child) is not None:
            _kill(child.process)

    def close(self) -> None:
        """End the process; it is started again for the next row."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _started(self, task: Task, is_sent: bool) -> _Child | ModelRow:
        if is_sent and self._child is not None:
            if read_frame(self._child.replies) is not None:
                return self._child
            self.close()
        reason = ": interrupted"
        # Two attempts: a process may end while the task is sent, after a long idle time or because a model broke it.
        for _ in range(2 * (not self._is_interrupted)):
            child = self._child = self._child or _Child.start(self._limit)
            if self._is_interrupted:
                _kill(child.process)
            with suppress(OSError):
                child.send(task)
                if read_frame(child.replies) is not None:
                    return child
            reason = child.how_it_ended()
            self.close()
        text = f"no process could be started, the last one ended: {reason.rpartition(': ')[2]}{self._limit_text()}"
        return ModelRow("", {}, text, failed=True)

    def _limit_text(self) -> str:
        return "" if self._limit is None else f" (memory_limit={self._limit:,} bytes)"


class _Child(NamedTuple):
    process: subprocess.Popen[bytes]
    tasks: IO[bytes]
    replies: IO[bytes]

    @classmethod
    def start(cls, memory_limit: int | None) -> _Child:
        code = _CODE.format(path=[folder for folder in sys.path if isinstance(folder, str)], limit=memory_limit)
        command = python_command(code, keep_environment=True)
        # A separate session receives no Ctrl-C: this process does, and kills the child with everything it started.
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        return cls(process, cast("IO[bytes]", process.stdin), cast("IO[bytes]", process.stdout))

    def send(self, task: Task) -> None:
        """Send a task.

        Raises:
            OSError: if the process has ended.
        """
        write_frame(self.tasks, pickle.dumps((task.frontends, task.is_code, task.content)))

    def takes_ahead(self, task: Task) -> bool:
        """Send a task while another is computed, and return True; False if it could fill the stream or the memory."""
        if not isinstance(task.content, bytes) or len(task.content) > SMALL:
            return False
        with suppress(OSError):
            self.send(task)
            return True
        return False

    def how_it_ended(self) -> str:
        last = time.monotonic() + GRACE
        while _is_running(self.process) and time.monotonic() < last:
            time.sleep(0.01)
        is_silent = _is_running(self.process)
        _kill(self.process)
        code = self.process.wait()
        if is_silent:
            return "the process of this model ended its connection"
        if code >= 0:
            return f"the process of this model ended: exit code {code}"
        name = signal.Signals(-code).name
        return f"the process of this model ended: {name}{' (out of memory?)' * (name == 'SIGKILL')}"

    def end(self) -> None:
        _kill(self.process)
        self.process.wait()
        for stream in (self.tasks, self.replies):
            with suppress(OSError):  # a task that was not read cannot be flushed
                stream.close()


class _Limit:
    def __init__(self, child: _Child, seconds: float | None) -> None:
        self.is_over = False
        self.text = f"stopped after timeout={seconds:g} seconds" if seconds is not None else ""
        self._child = child
        self._timer = None if seconds is None else threading.Timer(seconds, self._stop)

    def __enter__(self) -> _Limit:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _stop(self) -> None:
        self.is_over = True
        _kill(self._child.process)


def _is_running(process: subprocess.Popen[bytes]) -> bool:
    # With WNOWAIT an ended process keeps its PID, which is also the ID of its group: the group can still be killed.
    if process.returncode is not None or not hasattr(os, "waitid"):
        return process.poll() is None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _kill(process: subprocess.Popen[bytes]) -> None:
    # After a wait, its PID may belong to another process.
    if process.returncode is None:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except (AttributeError, OSError):  # a system without groups, or a process that has ended
            process.kill()


# Pools of processes: on this machine, or in a worker of a cluster.


MOST_POOLS = 2
"""The number of pools that a worker of a cluster keeps; older idle ones are ended."""


class ProcessPool:
    """Processes that compute rows, one per concurrent thread.

    Args:
        memory_limit: see :class:`ModelProcess`.
    """

    def __init__(self, memory_limit: int | None = None) -> None:
        self._limit = memory_limit
        self._all: list[ModelProcess] = []
        self._idle: list[ModelProcess] = []
        self._lock = threading.Lock()

    @property
    def is_idle(self) -> bool:
        """Whether no process computes a row."""
        return len(self._idle) == len(self._all)

    @contextmanager
    def process(self) -> Iterator[ModelProcess]:
        """Context manager: a process for exclusive use."""
        with self._lock:
            if not self._idle:
                self._all.append(ModelProcess(self._limit))
                self._idle.append(self._all[-1])
            process = self._idle.pop()
        try:
            yield process
        finally:
            with self._lock:
                self._idle.append(process)

    def interrupt(self) -> None:
        """End all processes; rows that they compute fail, and so do later ones."""
        with self._lock:
            for process in self._all:
                process.interrupt()

    def close(self) -> None:
        """End all processes, which must be idle."""
        for process in self._idle:
            process.close()


_POOLS: dict[str, ProcessPool] = {}

_LOCK = threading.Lock()


def pool_of(run: str, memory_limit: int | None) -> ProcessPool:
    """Return the pool for a run of a table, and end the pools of earlier runs."""
    with _LOCK:
        if run not in _POOLS:
            ended = [name for name, pool in _POOLS.items() if pool.is_idle][: max(0, len(_POOLS) + 1 - MOST_POOLS)]
            for name in ended:
                _POOLS.pop(name).close()
            _POOLS[run] = ProcessPool(memory_limit)
        return _POOLS[run]


# Tasks and limits.


class Plan(NamedTuple):
    """How rows are computed.

    Attributes:
        jobs: the number of processes; -1 for one per core; None for the setting of joblib, or else this process.
        timeout: the seconds that a model may take; None for no limit.
        memory_limit: the bytes of memory that the process of a model may allocate; None for no limit.
    """

    jobs: int | None = None
    timeout: float | None = None
    memory_limit: int | None = None


class Task(NamedTuple):
    """A model to compute in another process.

    Attributes:
        position: its position in the table.
        name: its name.
        content: its model, inputs and settings, pickled; if they cannot be pickled, a row with that error.
        frontends: the frontends that it probably needs; their import does not count as time of the model.
        plan: the limits.
        run: identifies the call of ``table``; processes are not shared between calls, because code may have changed.
        is_code: whether the model is Python code, which may import from the current folder. A file never does.
    """

    position: int
    name: str
    content: bytes | ModelRow
    frontends: tuple[str, ...]
    plan: Plan
    run: str
    is_code: bool = True


# Serialization of tasks.


class TaskMaker:
    """Makes the tasks of one call of ``table``.

    Args:
        settings: the settings of all rows.
        plan: the limits.
    """

    def __init__(self, settings: Settings, plan: Plan) -> None:
        self._settings, self._plan, self._run = settings, plan, secrets.token_hex(8)
        self._sources = Sources([*settings.python_path, ""])
        self._frontends: dict[str, tuple[str, ...]] = {}
        self._code: dict[str, bool] = {}

    def __call__(self, position: int, named: NamedModel) -> Task:
        """Return a model as a task."""
        content: bytes | ModelRow
        try:
            content = _pickled((named, self._settings))
        except Exception as error:  # pickling runs user code
            content = ModelRow(named.name, {}, f"the model cannot be pickled: {failure(error)}", True, named.arguments)
        frontends, is_code = self._frontends_of(named.model), self._is_code(named.model)
        return Task(position, named.name, content, frontends, self._plan, self._run, is_code)

    def _frontends_of(self, model: Any) -> tuple[str, ...]:
        if not isinstance(model, str):
            return tuple(loaded())
        if model not in self._frontends:
            module = model.rpartition(":")[0]
            try:
                packages = self._sources.packages(module) if module else set()
            except OSError:  # its row has the error
                packages = set()
            reader = frontend_for_file(model)
            names = [spec.name for spec in specs().values() if spec.name == reader or spec.framework in packages]
            self._frontends[model] = tuple(names)
        return self._frontends[model]

    def _is_code(self, model: Any) -> bool:
        if not isinstance(model, str):
            return runs_code(model)
        if model not in self._code:
            self._code[model] = runs_code(model)
        return self._code[model]


def compute(task: Task) -> tuple[int, ModelRow]:
    """Return position and row of a task, computed in a process of this cluster worker."""
    with pool_of(task.run, task.plan.memory_limit).process() as process:
        return next(process.rows(iter((task,))))


def _pickled(value: Any) -> bytes:
    # Code of the main module is pickled by value, with cloudpickle if joblib is installed.
    for name in ("cloudpickle", "joblib.externals.cloudpickle"):  # joblib brings one or the other
        with suppress(ImportError):
            content: bytes = import_module(name).dumps(value)
            return content
    return pickle.dumps(value)


def memory_of(limit: object) -> int | None:
    """Return a limit of memory in bytes, given as a number of bytes or as ``"2 GiB"``; None for none.

    Raises:
        TypeError, ValueError: if it has another form.
        CostError: if this system cannot limit memory.
    """
    if limit is None:
        return None
    from costcore.text.amounts import parse_amount

    nbytes = parse_amount(limit, "memory_limit", "bytes")
    try:
        import resource
    except ImportError as error:
        raise CostError(f"memory_limit cannot be used on this system ({error})") from error
    del resource
    return nbytes


# Rows in this process or in local processes.


Numbered: TypeAlias = "tuple[int, ModelRow]"
"""A row with its position in the table."""

Tasks: TypeAlias = "Callable[[int, NamedModel], Task]"
"""A function that makes a task of a position and a model."""

AHEAD = 3
"""Pickled tasks per process: one that runs, one that waits in the process, and one that waits for an idle process."""


def rows(models: Mapping[int, NamedModel], settings: Settings, plan: Plan) -> Generator[Numbered, None, None]:
    """Yield the row of every model with its position, in the order of completion.

    By default, models are counted in this process. With a plan or a configured joblib, each worker has a process that
    counts one model after the other.
    """
    joblib = configured_joblib()
    if plan == Plan() and joblib is None:
        yield from ((position, row_of(named, settings)) for position, named in models.items())
        return
    task_of = TaskMaker(settings, plan)
    if joblib is None:
        found = _rows_in_processes(models, task_of, plan)
    else:
        found = rows_on_cluster(joblib, models, task_of, plan.jobs)
    with closing(found):
        for position, row in found:
            yield position, row._replace(arguments=models[position].arguments)


def _rows_in_processes(models: Mapping[int, NamedModel], task_of: Tasks, plan: Plan) -> Generator[Numbered, None, None]:
    n = min(number_of_processes(plan.jobs), len(models))
    pool, threads = ProcessPool(plan.memory_limit), ThreadPoolExecutor(n or 1)
    tasks: SimpleQueue[Task | None] = SimpleQueue()
    done: SimpleQueue[Numbered | Future[None]] = SimpleQueue()

    def work() -> None:
        with pool.process() as process:
            for numbered in process.rows(iter(tasks.get, None)):
                done.put(numbered)

    def row() -> Numbered:
        while isinstance(found := done.get(), Future):
            found.result()  # raises the exception that ended a thread
        return found

    try:
        for _ in range(n):
            threads.submit(work).add_done_callback(done.put)
        for i, (position, named) in enumerate(models.items()):
            tasks.put(task_of(position, named))
            if i >= AHEAD * n:
                yield row()
        for _ in range(n):
            tasks.put(None)
        for _ in range(min(len(models), AHEAD * n)):
            yield row()
    finally:
        with suppress(Empty):
            while True:
                tasks.get_nowait()
        for _ in range(n):
            tasks.put(None)
        pool.interrupt()
        threads.shutdown()
        pool.close()


def number_of_processes(jobs: int | None) -> int:
    """Return the number of processes by ``jobs``: -1 is one per core, -2 one less; None is 1."""
    if jobs is None or jobs > 0:
        return jobs or 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores + 1 + jobs)


# Rows on the workers of a joblib backend: local processes, Dask, Ray.


Models: TypeAlias = "Mapping[int, NamedModel]"

PER_WORKER = 4
"""Tasks per worker sent ahead; after a lost worker, as many are computed one at a time."""

WORKER_LOST = {"BrokenExecutor", "KilledWorker", "RayActorError", "WorkerCrashedError"}
"""The exceptions of joblib, Dask and Ray for a lost worker."""

LOST_SCHEDULER = "the scheduler of Dask was lost. Start it again, and pass resume=True: rows in the output are kept"

SAFE_PATH = "PYTHONSAFEPATH"
"""Keeps Python from putting the current folder on the search path."""


def configured_joblib() -> Any:
    """Return joblib if ``joblib.parallel_config`` is active in this thread, else None."""
    joblib = sys.modules.get("joblib")
    if joblib is None:
        return None
    backend, n_jobs = joblib.parallel.get_active_backend()
    return None if n_jobs is None and type(backend).__name__ == "LokyBackend" else joblib


def rows_on_cluster(joblib: Any, models: Models, task_of: Tasks, jobs: int | None) -> Generator[Numbered, None, None]:
    """Yield the rows from the workers of the active backend; the row of a model says if its worker was lost."""
    backend, configured = joblib.parallel.get_active_backend()
    jobs = jobs or configured or -1  # some backends take None as one worker
    n_workers = max(1, joblib.effective_n_jobs(jobs))
    name = type(backend).__name__
    if name == "DaskDistributedBackend":
        yield from _by_dask(backend.client, models, task_of, PER_WORKER * n_workers)
    elif name == "RayBackend":
        yield from _by_ray(models, task_of, PER_WORKER * n_workers)
    else:
        with isolated_workers():
            yield from _by_joblib(joblib, models, task_of, jobs, PER_WORKER * n_workers)


@contextmanager
def isolated_workers() -> Iterator[None]:
    """Context manager: keep Python processes started inside from searching the current folder (from Python 3.11 on).

    Processes of joblib and multiprocessing start with ``-m`` or ``-c``, and get the search path of this process later.
    """
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(SAFE_PATH, None)
        else:
            os.environ[SAFE_PATH] = before


def _by_dask(client: Any, models: Models, task_of: Tasks, ahead: int) -> Iterator[Numbered]:
    # Not through joblib, which waits forever for a lost task.
    from distributed import as_completed

    waiting = iter(models.items())
    names: dict[Any, tuple[int, str]] = {}

    def send(some: Iterable[tuple[int, NamedModel]]) -> list[Any]:
        futures = []
        for position, named in some:
            futures.append(client.submit(compute, task_of(position, named), pure=False))
            names[futures[-1].key] = position, named.name
        return futures

    running = as_completed(send(islice(waiting, ahead)))
    try:
        for future in running:
            running.update(send(islice(waiting, 1)))
            position, name = names.pop(future.key)
            if future.cancelled():  # by the client, once it gave up to connect again
                raise CostError(LOST_SCHEDULER)
            error = future.exception()
            yield future.result() if error is None else (position, _lost(name, error))
    except OSError as error:
        raise CostError(f"{LOST_SCHEDULER} ({error_text(error)})") from error
    finally:
        client.cancel(list(running.futures))


def _by_ray(models: Models, task_of: Tasks, ahead: int) -> Iterator[Numbered]:
    # Not through joblib, which waits forever for a lost task.
    import ray

    waiting = iter(models.items())
    remote = ray.remote(compute)
    running: dict[Any, tuple[int, str]] = {}
    try:
        while True:
            for position, named in islice(waiting, ahead - len(running)):
                running[remote.remote(task_of(position, named))] = position, named.name
            if not running:
                return
            (done,), _ = ray.wait(list(running), num_returns=1)
            position, name = running.pop(done)
            try:
                yield ray.get(done)
            except ray.exceptions.RayError as error:
                yield position, _lost(name, error)
    finally:
        for reference in running:
            ray.cancel(reference)


def _by_joblib(joblib: Any, models: Models, task_of: Tasks, jobs: int | None, ahead: int) -> Iterator[Numbered]:
    left = dict.fromkeys(models)
    while left:
        tasks = (task_of(position, models[position]) for position in list(left))
        try:
            for position, row in _in_parallel(joblib, tasks, jobs, ahead):
                del left[position]
                yield position, row
        except Exception as error:
            if not _is_worker_lost(error):
                raise
            # One of these models may have ended the worker: compute them one at a time.
            for position in list(left)[:ahead]:
                del left[position]
                yield _alone(joblib, task_of(position, models[position]), jobs)


def _in_parallel(joblib: Any, tasks: Iterable[Task], jobs: int | None, ahead: int) -> Iterator[Numbered]:
    call = joblib.delayed(compute)
    backend, _ = joblib.parallel.get_active_backend()
    if backend.supports_return_generator:
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from parallel(call(task) for task in tasks)
        return
    # This backend returns no single rows, only whole batches.
    tasks = iter(tasks)
    with joblib.Parallel(n_jobs=jobs, batch_size=1) as parallel:
        while batch := [*islice(tasks, ahead)]:
            yield from parallel(call(task) for task in batch)


def _alone(joblib: Any, task: Task, jobs: int | None) -> Numbered:
    try:
        return next(iter(_in_parallel(joblib, [task], jobs, 1)))
    except Exception as error:
        if not _is_worker_lost(error):
            raise
        return task.position, _lost(task.name, error)


def _lost(name: str, error: Exception) -> ModelRow:
    if not _is_worker_lost(error):
        raise error
    reason = str(error).partition("\n")[0]
    return ModelRow(name, {}, f"the worker of this model ended: {type(error).__name__}: {reason}", failed=True)


def _is_worker_lost(error: Exception) -> bool:
    return any(base.__name__ in WORKER_LOST for base in type(error).__mro__)


# Hashes of source code, with all user modules that it imports.


INSTALLED = ("site-packages", "dist-packages", f"python{sys.version_info.major}.{sys.version_info.minor}")
"""Names of folders with installed packages or with the standard library."""

MOST_HASHED = 2**32
"""The maximum bytes of a hashed file: Protocol Buffers limits a model in one file to half of it."""


class Sources:
    """Hashes of files and modules; every file is read once.

    Imports are followed by parsing the code, without running it. A user module is identified by its source, an
    installed package by its version. Imports by a computed name, and files read by code, are not followed.

    Args:
        folders: the folders to search for modules before ``sys.path``.
    """

    def __init__(self, folders: Sequence[str]) -> None:
        own = [folder for folder in sys.path if not any(name in Path(folder).parts for name in INSTALLED)]
        self._folders = [*dict.fromkeys(Path(folder).resolve() for folder in (*folders, *own) if Path(folder).is_dir())]
        self._contents: dict[Path, str] = {}
        self._parts: dict[Path, tuple[set[str], set[str]]] = {}
        self._modules: dict[str, str] = {}
        self._sources: dict[Path, str] = {}

    def of_file(self, path: Path) -> str:
        """Return the hash of the content of a file.

        Raises:
            OSError: if it cannot be read, or has more than :data:`MOST_HASHED` bytes.
        """
        path = _resolved(path)
        if path not in self._contents:
            digest, left = hashlib.sha256(), MOST_HASHED
            with open_file(path) as file:
                is_too_large = os.fstat(file.fileno()).st_size > left
                while not is_too_large and (block := file.read(1 << 20)):
                    digest.update(block)
                    left -= len(block)
                    is_too_large = left < 0  # a pipe, which has no size
            if is_too_large:
                raise FileError(f"{path} cannot be recognized: it has more than {MOST_HASHED:,} bytes")
            self._contents[path] = digest.hexdigest()
        return self._contents[path]

    def of_module(self, module: str) -> str:
        """Return the hash of a module, given by its name or as ``file.py``, with its imports.

        Raises:
            OSError: if it is a file that cannot be read.
        """
        if module not in self._modules:
            files = [Path(module)] if module.endswith(".py") else self._files(module, self._folders)
            self._modules[module] = "".join(map(self.of_source, files)) or _installed(module)
        return self._modules[module]

    def of_source(self, path: Path) -> str:
        """Return the hash of a source file with its imports.

        Raises:
            OSError: if it cannot be read.
        """
        if path not in self._sources:
            hashes, packages = self._followed(_resolved(path))
            parts = [*sorted(hashes), *sorted(map(_installed, packages))]
            self._sources[path] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return self._sources[path]

    def packages(self, module: str) -> set[str]:
        """Return the installed packages that a module imports or, if it is installed itself, that it requires.

        Raises:
            OSError: if it is a file that cannot be read.
        """
        files = [Path(module)] if module.endswith(".py") else self._files(module, self._folders)
        if files:
            return set().union(*(self._followed(_resolved(file))[1] for file in files))
        package = module.partition(".")[0]
        return {package, *(_REQUIRED.split(text)[0] for text in _requirements(package))}

    def _followed(self, path: Path) -> tuple[set[str], set[str]]:
        if path in self._parts:
            return self._parts[path]
        hashes, packages, seen, files = set(), set(), {path}, [path]
        while files:
            file = files.pop()
            hashes.add(self.of_file(file))
            for module, folders in _imports(file):
                found = set(self._files(module, folders or self._folders))
                if not found:
                    packages.add(module.partition(".")[0])
                files += found - seen
                seen |= found
        self._parts[path] = hashes, packages
        return hashes, packages

    def _files(self, module: str, folders: Sequence[Path]) -> list[Path]:
        names = module.split(".")
        if names[0] == "costcore":
            return []
        for folder in folders:
            bases = [folder.joinpath(*names[:end]) for end in range(1, len(names) + 1)]
            files = [file for base in bases for file in (base.with_suffix(".py"), base / "__init__.py")]
            if found := [file.resolve() for file in files if file.is_file()]:
                return found
        return []


def _resolved(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, ValueError) as error:  # a NUL in its name
        raise unreadable(path, error) from error


_REQUIRED = re.compile(r"[^\w.-]")


def _requirements(package: str) -> list[str]:
    try:
        return requires(package) or []
    except PackageNotFoundError:
        return []


def _imports(file: Path) -> Iterator[tuple[str, list[Path]]]:
    try:
        tree = ast.parse(read_file(file))
    except (SyntaxError, ValueError, RecursionError):  # its row has the error
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            folders = [file.parents[node.level - 1]] if 0 < node.level <= len(file.parents) else []
            module = f"{node.module}." if node.module else ""
            yield from ((f"{module}{alias.name}", folders) for alias in node.names)


def _installed(module: str) -> str:
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names:
        return ""
    try:
        return f"{package} {version(package)}"
    except PackageNotFoundError:
        return package
