# SPDX-License-Identifier: MIT
"""What the tools tree is made of: packages that its programs need, and files of them that no program needs."""

from __future__ import annotations

#: The programs. `proot` and `bubblewrap` are ways into the tree.
TOOLS = (
    *("bash", "bc", "binutils", "bison", "bubblewrap", "bzip2", "ccache", "coreutils", "cpio", "dash", "diffutils"),
    *("findutils", "flex", "gawk", "gcc", "gcc-multilib", "grep", "gzip", "kmod", "libc6-dev", "libelf-dev"),
    *("libssl-dev", "make", "patch", "perl-base", "proot", "qemu-system-x86", "sed", "strace", "tar", "util-linux"),
    *("xz-utils",),
)
#: What the KVM host that tests boot is made of (tests/kvmbox).
KVM_HOST = ("linux-image-amd64", "busybox-static")
#: By architecture of guests: programs that its tree has besides.
CROSS = {"arm64": ("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-system-arm")}
#: Dependencies that none of these programs uses as it is used here (names as in a shell): what an installation asks,
#: other ABIs, sanitizers and other libraries for programs, sound, screens, and what reads smart cards.
LEFT_OUT = (
    *("adduser", "base-files", "debconf*", "debianutils", "dpkg", "gcc-12-base", "libaudit-common", "libbsd0"),
    *("libcap2-bin", "libdb5.3", "libmd0", "libncursesw6", "libpam-modules*", "libsasl2-modules-db", "libsemanage*"),
    *("libsepol2", "libtirpc*", "libnsl*", "passwd", "readline-common", "rpcsvc-proto"),
    *("libx32*", "libc6*-x32", "lib32[!g]*", "lib32gomp1"),
    *("lib[alt]san*", "libubsan1", "libatomic1", "libcc1-0", "libgomp1", "libitm1", "libquadmath0"),
    *("libasound2*", "libgstreamer*", "liborc-*", "libopus0", "libsndio*", "libspice-server1", "iso-codes"),
    *("libdrm*", "libepoxy0", "libexpat1", "libgbm1", "libwayland-server0", "libbrlapi*", "libcacard0", "libdw1"),
    *("libpcsclite1", "libusb*", "libnspr4", "libnss3", "libsqlite3-0"),
    *("gcc-12-*-base", "gcc-12-cross-base*", "lib*san?-*-cross", "libatomic1-*-cross", "libgomp1-*-cross"),
    *("libitm1-*-cross",),
    *("libcom-err2", "libexecs0", "libgssapi-krb5-2", "libk5crypto3", "libkeyutils1", "libkrb5*"),
)
#: Folders of the tree, without `usr/`, that are not unpacked.
UNUSED = (
    *("share/doc/", "share/info/", "share/man/", "share/locale/", "share/lintian/", "share/bug/", "share/i18n/"),
    *("share/bash-completion/", "share/zsh/", "share/initramfs-tools/", "share/applications/", "share/icons/"),
    *("lib/systemd/", "lib/udev/", "lib/x86_64-linux-gnu/gconv/", "lib32/gconv/", "lib/modprobe.d/"),
    *("bin/qemu-system-i386", "bin/qemu-system-x86_64-microvm", "bin/x86_64-linux-gnu-lto-dump-12"),
    *("bin/qemu-system-arm", "bin/aarch64-linux-gnu-lto-dump-12"),
)
