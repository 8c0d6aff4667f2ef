# SPDX-License-Identifier: MIT
"""Code that a hostile set brings: what it tries to reach from within its analysis, and how it tries to end it."""

from __future__ import annotations

#: Before all: what attacks are written with. `{name}` are filled in (`attacking`).
TOOLS = """
import ctypes, errno, fcntl, json, os, resource, signal, socket, struct, subprocess, tempfile
from pathlib import Path as _Path

SECRET, LISTENING, ABSTRACT, PORT, HOME, PURE, PROJECT = {where!r}
RAW = str(_Path(__file__).parent.parent / "raw/short/0/wait")
NUMBERS = dict(zip(
    "add_key request_key keyctl ptrace process_vm_readv userfaultfd io_uring_setup unshare setns clone clone3 bpf "
    "perf_event_open mount clock_settime memfd_create fork pidfd_getfd".split(),
    (248, 249, 250, 101, 310, 323, 425, 272, 308, 56, 435, 321, 298, 165, 227, 319, 57, 438)
    if os.uname().machine == "x86_64" else
    (217, 218, 219, 117, 270, 282, 425, 97, 268, 220, 435, 280, 241, 40, 112, 279, 220, 438)))
_libc = ctypes.CDLL(None, use_errno=True)

def _call(name, *arguments):
    made = _libc.syscall(NUMBERS[name], *arguments)
    if made < 0:
        raise OSError(ctypes.get_errno(), name)
    return made
"""

#: By name: what it does, as the body of a function; an OSError says that it could not.
ATTACKS = {
    # -- the terminal
    "dev_tty": 'open("/dev/tty", "w")',
    "tiocsti": "fcntl.ioctl(1, 0x5412, b'x')",
    "tioclinux": "fcntl.ioctl(1, 0x541C, b'\\x02')",
    "tiocsti_of_32_bits_more": "r = _libc.syscall(16, 1, ctypes.c_ulong(0x100005412), b'x')\n"
    "if r < 0: raise OSError(ctypes.get_errno(), 'ioctl')",
    # -- files
    "secret": "open(SECRET).read()",
    "secret_of_parent": "next(open(f'/proc/{p}/root{SECRET}') for p in (os.getppid(), 1))",
    "inherited": "(_ for _ in ()).throw(OSError(errno.EBADF, '')) if not [\n"
    "  n for n in range(3, 4096) if _is_secret(n)] else None",
    "proc_self_fd": "[open(f'/proc/self/fd/{n}', 'r+') for n in range(3, 64) if _is_secret(n)][0]",
    "memory_of_parent": "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)\n"
    "open('/proc/1/environ').read().index('KREPRO_S')",
    "symlink": "link = tempfile.mktemp()\nos.symlink(SECRET, link)\nopen(link).read()",
    "symlink_swapped": "link = tempfile.mktemp()\nopen(link, 'w').close()\nfor _ in range(300):\n"
    "  os.symlink(SECRET, link + 'x')\n  os.replace(link + 'x', link)\n  try: open(link).read(); return\n"
    "  except OSError as error: last = error\nraise last",
    "hard_link": "os.link(SECRET, tempfile.mktemp())",
    "hard_link_of_raw": "link = tempfile.mktemp()\nos.link(RAW, link)\nopen(link, 'r+').write('0')",
    "raw_written": "open(RAW, 'r+').write('0')",
    "raw_truncated": "os.truncate(RAW, 0)",
    "raw_removed": "os.unlink(RAW)",
    "raw_replaced": "os.rename(tempfile.mkstemp()[1], RAW)",
    "raw_mode": "os.chmod(RAW, 0o666)",
    "raw_time": "os.utime(RAW, (0, 0))",
    "raw_attribute": "os.setxattr(RAW, 'user.krepro', b'x')",
    "raw_through_proc": "n = os.open(RAW, os.O_RDONLY)\nopen(f'/proc/self/fd/{n}', 'r+').write('0')",
    "set_added_to": "open(RAW + '.more', 'w')",
    "pth": "open(os.path.join(PURE, 'krepro-hostile.pth'), 'w').write('import os')",
    "metadata": "os.mkdir(os.path.join(PURE, 'krepro_hostile-1.dist-info'))",
    "sitecustomize": "open(os.path.join(PURE, 'sitecustomize.py'), 'w')",
    "project": "open(os.path.join(PROJECT, 'harness', 'hostile.py'), 'w')",
    "home": "open(os.path.join(HOME, '.krepro-hostile'), 'w')",
    "device": "os.mknod(tempfile.mktemp(), 0o600 | 0o020000, os.makedev(1, 1))",
    "disk": "_Path('/dev/vda').open('rb') if _Path('/dev/vda').exists() else open('/dev/mem', 'rb')",
    # -- sockets
    "path_socket": "socket.socket(socket.AF_UNIX).connect(LISTENING)",
    "abstract_socket": "socket.socket(socket.AF_UNIX).connect(chr(0) + ABSTRACT)",
    "port": "socket.create_connection(('127.0.0.1', PORT), 3)",
    "listening": "socket.create_server(('127.0.0.1', 0))",
    "netlink": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    # -- keys
    "add_key": "_call('add_key', b'user', b'krepro', b'x', 1, -3)",
    "request_key": "_call('request_key', b'user', b'krepro', None, -3)",
    "keyctl": "_call('keyctl', 0, -3, 0)",
    # -- other processes
    "ptrace": "_call('ptrace', 16, os.getppid(), 0, 0)",
    "process_vm_readv": "_call('process_vm_readv', os.getppid(), None, 0, None, 0, 0)",
    "pidfd_getfd": "_call('pidfd_getfd', 0, 0, 0)",
    "kill_parent": "os.kill(os.getppid(), 0)",
    "kill_all": "os.kill(-1, 0)",
    "kill_group": "os.killpg(0, signal.SIGTERM)",
    "tgkill_parent": "n = 234 if os.uname().machine == 'x86_64' else 131\n"
    "r = _libc.syscall(n, os.getppid(), os.getppid(), 0)\n"
    "if r < 0: raise OSError(ctypes.get_errno(), 'tgkill')",
    "stop": "signal.raise_signal(signal.SIGSTOP)",
    "outlive": "if _libc.prctl(1, 0): raise OSError(ctypes.get_errno(), 'prctl')",
    "fork": "os.fork() or os._exit(0)",
    "fork_bomb": "while True: os.fork()",
    "clone": "_call('clone', 17, None, None, None, None) or os._exit(0)",
    "exec": "os.execv('/bin/sh', ['sh', '-c', 'exit 0'])",
    "ld_preload": "os.environ['LD_PRELOAD'] = RAW\nsubprocess.run(['true'], check=True)",
    "shell": "os.posix_spawn('/bin/sh', ['sh', '-c', ':'], os.environ)",
    # -- the kernel
    "userfaultfd": "_call('userfaultfd', 1)",
    "io_uring": "_call('io_uring_setup', 1, bytes(120))",
    "unshare": "_call('unshare', 0x10000000)",
    "clone_into_namespace": "_call('clone', 0x10000000 | 0x10000 | 0x800 | 0x100, None, None, None, None)",
    "clone3": "_call('clone3', bytes(88), 88)",
    "setns": "_call('setns', os.open('/proc/self/ns/user', os.O_RDONLY), 0)",
    "bpf": "_call('bpf', 0, bytes(120), 120)",
    "perf": "_call('perf_event_open', bytes(120), 0, -1, -1, 0)",
    "mount": "_call('mount', b'x', b'/tmp', b'tmpfs', 0, None)",
    "x32": "r = _libc.syscall(0x40000000 | 57)\nif r < 0: raise OSError(ctypes.get_errno(), 'x32')",
    # -- clocks and limits
    "clock": "_call('clock_settime', 0, struct.pack('qq', 0, 0))",
    "limits": "resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)",
    "file_size": "fd, _ = tempfile.mkstemp()\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nos.ftruncate(fd, 1 << 40)",
    "file_in_memory": "_call('memfd_create', b'x', 0)",
    "shared_memory": "open('/dev/shm/krepro-hostile', 'w')",
}
ALL = """
def _is_secret(number):
    try:
        there, here = os.fstat(number), {secret!r}
        return (there.st_dev, there.st_ino) == tuple(here)
    except OSError:
        return False

def _outcomes():
    made = {{}}
    for name, attack in list(globals().items()):
        if name.startswith("_attack_"):
            try:
                attack()
                made[name[8:]] = "done"
            except (OSError, ValueError, IndexError, OverflowError) as error:
                made[name[8:]] = errno.errorcode.get(getattr(error, "errno", None), type(error).__name__)
    return made

raise RuntimeError("outcomes " + json.dumps(_outcomes(), separators=(",", ":")))
"""


def attacking(secret: tuple[int, int], where: tuple[object, ...]) -> str:
    """Code that tries all ATTACKS when it is loaded, and says what became of each."""
    code = [TOOLS.format(where=where)]
    for name, body in ATTACKS.items():
        lines = "".join(f"    {line}\n" for line in body.split("\n"))
        code.append(f"def _attack_{name}():\n{lines}")
    return "\n".join([*code, ALL.format(secret=secret)])


#: Endings of a hook that do not return, and what is said of them.
ENDINGS = {
    "os._exit(0)": ("import os; os._exit(0)", "ended its process with status 0"),
    "os._exit(1)": ("import os; os._exit(1)", "ended its process with status 1"),
    "os._exit(130)": ("import os; os._exit(130)", r"ended its process with status 130|was ended by SIGINT"),
    "sys.exit(0)": ("raise SystemExit(0)", "failed: SystemExit: 0"),
    "sys.exit(1)": ("raise SystemExit(1)", "failed: SystemExit: 1"),
    "Ctrl-C": ("raise KeyboardInterrupt", "failed: KeyboardInterrupt"),
    "a generator's end": ("raise GeneratorExit", "failed: GeneratorExit"),
    "SIGKILL": ("import signal; signal.raise_signal(9)", "was ended by SIGKILL, as by a kernel that has no memory"),
    "SIGSEGV": ("import ctypes; ctypes.string_at(0)", "was ended by SIGSEGV"),
    "SIGABRT": ("import os; os.abort()", "was ended by SIGABRT"),
    "SIGTERM": ("import signal; signal.raise_signal(15)", "was ended by SIGTERM"),
    "an alarm": ("import signal, time; signal.setitimer(0, 0.01); time.sleep(60)", "was ended by SIGALRM"),
    "out of memory": ("x = bytearray(1 << 50)", "failed: MemoryError"),
    "recursion": ("f = lambda: f(); f()", "failed: RecursionError"),
    "endless output": ("while True: print('x' * 100000, flush=True)", "printed more than 16 MiB"),
    "no end": ("while True: pass", "did not end within 3 s"),
    "no end, no signals": (
        "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; time.sleep(1e6)",
        "did not end within 3 s",
    ),
    "no way to answer": (
        "import os; os.closerange(3, 4096); import time; time.sleep(1e6)",
        "closed what it answers by",
    ),
    "a thread that stays": (
        "import threading, time, os; threading.Thread(target=time.sleep, args=(1e6,)).start(); os._exit(3)",
        "ended its process with status 3",
    ),
}

#: Before what an analysis puts into the descriptor that its answers leave by.
ANSWERS = """
import os, stat, json
_out = next(n for n in range(3, 64) if _is_pipe(n))
"""
IS_PIPE = """
def _is_pipe(number):
    import fcntl, os, stat
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode) and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_WRONLY
    except OSError:
        return False

import os

def _write(data):
    while data:
        data = data[os.write(_out, data):]
"""
#: What it puts there, and what is said of it.
FORGED = {
    "a pickle": ("import pickle\n_write(pickle.dumps(print) + b'\\n')", "gave an answer that is none"),
    "noise": ("_write(os.urandom(9999) + b'\\n')", "gave an answer that is none"),
    "a name that leads out": (
        '_write(b\'{"file": "../../../escaped", "size": 1}\\nx\')',
        "hands out '../../../escaped', which is nothing of what it makes",
    ),
    "an absolute name": (
        '_write(b\'{"file": "/tmp/escaped", "size": 1}\\nx\')',
        "hands out '/tmp/escaped', which is nothing",
    ),
    "a manifest": ('_write(b\'{"file": "manifest.json", "size": 2}\\n{}\')', "hands out 'manifest.json', which"),
    "claims": ('_write(b\'{"file": "claims.json", "size": 2}\\n[]\')', "hands out 'claims.json', which"),
    "raw files": ('_write(b\'{"file": "raw/short/0/wait", "size": 2}\\n[]\')', "hands out 'raw/short/0/wait', which"),
    "a name that is none": ('_write(b\'{"file": [1], "size": 2}\\n\')', r"hands out \[1\], which"),
    "a size that is none": ('_write(b\'{"file": "metrics.parquet", "size": -1}\\n\')', "more files than it may"),
    "a size beyond all": ('_write(b\'{"file": "metrics.parquet", "size": 1000000000000}\\n\')', "more than 8 GiB"),
    "a file twice": ('_write(b\'{"file": "metrics.parquet", "size": 0}\\n\' * 2)', "hands out metrics.parquet twice"),
    "half a file": (
        '_write(b\'{"file": "metrics.parquet", "size": 9}\\nxx\'); os._exit(0)',
        "ended its process with status 0",
    ),
    "a line without an end": ("while True: _write(b'x' * 100000)", "gave a line without an end|did not end"),
    "depth": ("_write(b'[' * 100000 + b'\\n')", "gave an answer that is none"),
    "an end that is none": ('_write(b\'{"end": 1, "error": 7}\\n\')', "gave an answer that is none"),
    "an error that is none": ('_write(b\'{"end": 1, "error": {"message": []}}\\n\')', "gave an answer that is none"),
    "an end, and nothing made": ('_write(b\'{"end": null, "error": null}\\n\')', "metrics|trials"),
    "a table of noise": (
        '_write(b\'{"file": "tables/trials.parquet", "size": 4}\\nPAR1{"end": null, "error": null}\\n\')',
        "cannot be read",
    ),
}
