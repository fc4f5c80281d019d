#!/usr/bin/env bash
# rutter.toml(5) on standard output, from the example of every key that the
# binary prints: the page cannot say anything else than the program.
#
#   scripts/manpage.sh target/release/rutter >rutter.toml.5
set -euo pipefail

rutter=${1:?usage: manpage.sh BINARY}
cat <<END
.TH RUTTER.TOML 5 "" "$("$rutter" version | head -n 1)" "Rutter"
.SH NAME
rutter.toml \- configuration of the Rutter data plane
.SH DESCRIPTION
The file that \fBrutter run\fR reads, by default
.IR /etc/rutter/rutter.toml ,
in TOML. Every key is shown below with its meaning and default; keys that have a default may be left out. \fBrutter config check\fR reads a file and reports each mistake
with its line; nothing starts while there is one.
.SH KEYS
.nf
END
"$rutter" config example | sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/"
cat <<'END'
.fi
.SH FILES
.TP
.I /etc/rutter/rutter.toml
the configuration
.TP
.I /run/rutter/api.sock
the socket by which clients talk to the data plane
END
