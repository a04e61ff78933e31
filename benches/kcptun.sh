#!/usr/bin/env bash
# usage: benches/kcptun.sh [--runs N] DIRECTORY [LINK]...
#
# Compares `longhaul forward` and `gateway` with kcptun, whose programs `client` and `server` are in DIRECTORY: one
# download over the same emulated link, one after the other. kcptun encrypts with AES-128, longhaul by TLS 1.3. kcptun has the mode `fast`, windows of
# one bandwidth-delay product, and 3 parity packets for 10 of data; snappy is off, because the data are zeros. Prints, for
# each run, the goodput in Mb/s, the CPU time of both ends in s per GB, and the bytes that arrived by the link per byte of
# data, and the medians. Needs root (longhaul-linkem shell), curl, python3, and the release builds of longhaul-cli and
# longhaul-linkem, or others in $BIN.
#
#   fast   100 MB, 155 Mb/s, 65 ms, 0.5 % of loss
#   long   20 MB, 20 Mb/s, 600 ms, 0.1 % of loss
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin="${BIN:-${CARGO_TARGET_DIR:-target}/release}"
runs=5
inside=''
while [[ ${1-} == --* ]]; do
    case "$1" in
        --runs) runs="$2"; shift 2 ;;
        --inside) inside=1; shift ;;
        *) sed -n '2s/^# \?//p' "$0" >&2; exit 2 ;;
    esac
done
[[ $# -ge 1 ]] || { sed -n '2s/^# \?//p' "$0" >&2; exit 2; }
kcptun="$1"
shift
declare -A LINKS=(
    [fast]='--rate 155mbit --rtt 65ms --loss 0.5% --queue 1bdp'
    [long]='--rate 20mbit --rtt 600ms --loss 0.1% --queue 1bdp'
)
declare -A SIZES=([fast]=100000000 [long]=20000000)
# Packets of 1350 bytes, the default of kcptun, in a bandwidth-delay product.
declare -A WINDOWS=([fast]=933 [long]=1111)

# Nanoseconds of CPU time of all threads.
cpu_time() { # directory of a process in a proc file system...
    local process
    for process in "$@"; do cat "$process"/task/*/schedstat || exit; done | awk '{ sum += $1 } END { printf "%.0f\n", sum }'
}

# Bytes that have arrived by the interfaces of this network namespace.
arrived() { awk -F'[: ]+' 'NR > 2 && $2 != "lo" { sum += $3 } END { print sum }' /proc/net/dev; }

# Waits until less than 20 kB have arrived in two seconds, at most a minute: what the other program still sends must not
# share the link.
quiet() {
    local before try
    for ((try = 0; try < 30; try++)); do
        before=$(arrived)
        sleep 2
        (($(arrived) - before >= 20000)) || return 0
    done
    echo 'the link does not become quiet' >&2
    return 1
}

download() { # name, port, bytes, directories of the processes of both ends...
    local name="$1" port="$2" bytes="$3" start end cpu received
    shift 3
    quiet
    curl --silent --show-error --fail --output /dev/null "http://127.0.0.1:$port/1"
    cpu=$(cpu_time "$@")
    received=$(arrived) start=$EPOCHREALTIME
    curl --silent --show-error --fail --max-time 600 --output /dev/null "http://127.0.0.1:$port/$bytes"
    end=$EPOCHREALTIME
    cpu=$(($(cpu_time "$@") - cpu))
    awk -v name="$name" -v bytes="$bytes" -v time="$(awk "BEGIN { print $end - $start }")" -v cpu="$cpu" -v received=$(($(arrived) - received)) \
        'BEGIN { printf "%s: %.1f Mb/s, %.2f CPU s/GB, %.3f bytes by the link per byte\n",
                 name, bytes * 8e-6 / time, cpu / bytes, received / bytes }'
}

if [[ $inside ]]; then
    link="$1" gateway="$2" server="$3" work="$4"
    "$bin/longhaul" forward --accept-new -L 9000:127.0.0.1:8000 "$LONGHAUL_OUTSIDE:7443" 2>"$work/forward" &
    forward=$!
    "$kcptun/client" --localaddr :9001 --remoteaddr "$LONGHAUL_OUTSIDE:29900" --mode fast --crypt aes-128 --nocomp \
        --datashard 10 --parityshard 3 --sndwnd "${WINDOWS[$link]}" --rcvwnd "${WINDOWS[$link]}" 2>"$work/client" &
    client=$!
    trap 'kill $forward $client' EXIT
    until grep -qs ' leads to ' "$work/forward"; do
        kill -0 "$forward" || { cat "$work/forward" >&2; exit 1; }
        sleep 0.05
    done
    sleep 6
    for ((run = 1; run <= runs; run++)); do
        # The processes outside are not in this shell's own proc file system.
        download longhaul 9000 "${SIZES[$link]}" "/proc/$forward" "/proc/self/fd/9/$gateway"
        download kcptun 9001 "${SIZES[$link]}" "/proc/$client" "/proc/self/fd/9/$server"
    done
    exit
fi

exec 9</proc
work=$(mktemp -d)
export XDG_DATA_HOME="$work" BIN="$bin"
python3 benches/zeros.py &
zeros=$!
"$bin/longhaul" gateway --allow "$("$bin/longhaul" identity)" --permit 127.0.0.1:8000 2>"$work/gateway" &
gateway=$!
server=''
trap 'kill $zeros $gateway $server; rm -r "$work"' EXIT
until grep -qs '^Ready' "$work/gateway"; do
    kill -0 "$gateway" || { cat "$work/gateway" >&2; exit 1; }
    sleep 0.2
done
for link in "${@:-fast}"; do
    "$kcptun/server" --listen :29900 --target 127.0.0.1:8000 --mode fast --crypt aes-128 --nocomp \
        --datashard 10 --parityshard 3 --sndwnd "${WINDOWS[$link]}" --rcvwnd "${WINDOWS[$link]}" 2>"$work/server" &
    server=$!
    # shellcheck disable=SC2086
    "$bin/longhaul-linkem" shell ${LINKS[$link]} -- "$0" --runs "$runs" --inside "$kcptun" "$link" "$gateway" "$server" "$work" \
        2>"$work/errors" | tee "$work/runs" || { cat "$work/errors" >&2; exit 1; }
    kill "$server"
    wait "$server" || true
    server=''
    for name in longhaul kcptun; do
        for field in 1 3 6; do
            sed -n "s/^$name://p" "$work/runs" | awk -v field="$field" '{ print $field }' | sort -n |
                awk '{ value[NR] = $1 } END { print NR % 2 ? value[(NR + 1) / 2] : (value[NR / 2] + value[NR / 2 + 1]) / 2 }'
        done | paste -s | awk -v link="$link" -v name="$name" \
            '{ printf "%s, %s, medians: %.1f Mb/s, %.2f CPU s/GB, %.3f bytes by the link per byte\n", link, name, $1, $2, $3 }'
    done
done
