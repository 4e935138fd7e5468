"""Free memory by the files of a machine and of control groups, and estimates of a fit."""

from __future__ import annotations

import sys

import pytest

from tuneup.tables.inspection import free_memory

GB = 10**9


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


MACHINE = {"proc/meminfo": f"MemTotal: 99 kB\nMemAvailable:   {8 * GB // 1024} kB\nHugePages: 0\n"}


def test_without_groups_it_is_what_the_machine_has(tmp_path):
    assert free_memory(tmp_path) is None
    write(tmp_path, MACHINE)
    assert free_memory(tmp_path) == 8 * GB // 1024 * 1024


def test_a_group_of_version_2_and_those_above_it_limit(tmp_path):
    write(
        tmp_path,
        {
            **MACHINE,
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/b/memory.current": "1\n",
            "sys/fs/cgroup/a/memory.max": f"{4 * GB}\n",
            "sys/fs/cgroup/a/memory.current": f"{3 * GB}\n",
            "sys/fs/cgroup/a/memory.stat": f"anon 5\ninactive_file {GB}\n",
        },
    )
    assert free_memory(tmp_path) == 2 * GB


def test_a_group_of_version_1_in_a_container(tmp_path):
    write(
        tmp_path,
        {
            **MACHINE,
            "proc/self/cgroup": "9:name=systemd:/x\n7:cpu,memory:/docker/1\n0::/\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{2 * GB}\n",
        },
    )
    assert free_memory(tmp_path) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_of_this_machine():
    found = free_memory()
    assert found is not None
    assert found > 0
