#!/usr/bin/env bash
# usage: benches/forward.sh [--runs N] [one|ten|ten-cold|page|bulk|loopback]...
#
# Compares `longhaul forward` and `gateway` with the kernel's TCP (CUBIC) end to end, behind the same emulated link, in
# the same run. Prints the time of each run in seconds, the medians, and their ratio. Needs root (longhaul-linkem shell),
# curl, python3, and the release builds of longhaul-cli and longhaul-linkem, or others in $BIN. $CONGESTION is the
# congestion control of the tunnels, if not their default.
#
#   one       100 kB, 20 Mb/s, 600 ms, 0.1 % of loss; bar: at most 0.8 of the kernel's time
#   ten       ten of these at once, through a new forwarder that has carried 2 MB before; bar: at most 0.8
#   ten-cold  ten of these at once, through a new forwarder that has carried nothing before
#   page      60 objects of 20 kB by six connections; bar: at most 0.6
#   bulk      100 MB, 155 Mb/s, 65 ms, 0.5 % of loss; bar: at most 0.25
#   loopback  2 GB without a link; bar: at least 4 Gb/s
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

bin="${BIN:-${CARGO_TARGET_DIR:-target}/release}"
runs=5
inside=''
while [[ ${1-} == --* ]]; do
    case "$1" in
        --runs) runs="$2"; shift 2 ;;
        --inside) inside=1; shift ;;
        *) sed -n '2,4s/^# \?//p' "$0" >&2; exit 2 ;;
    esac
done
declare -A LINKS=(
    [one]='--rate 20mbit --rtt 600ms --loss 0.1% --queue 1bdp'
    [bulk]='--rate 155mbit --rtt 65ms --loss 0.5% --queue 1bdp'
)
LINKS[ten]="${LINKS[one]}" LINKS[ten-cold]="${LINKS[one]}" LINKS[page]="${LINKS[one]}"

# Starts a forwarder and waits for its port.
forwarder() { # address
    "$bin/longhaul" forward --accept-new ${CONGESTION:+-C "$CONGESTION"} -L 9000:127.0.0.1:8000 "$1:7443" 2>"$work/forward" &
    forward=$!
    until grep -q ' leads to ' "$work/forward"; do sleep 0.05; done
    # The tunnels that are kept ready.
    sleep "${2:-6}"
}

seconds() { # command...
    local start=$EPOCHREALTIME
    "$@"
    awk -v from="$start" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.2f\n", to - from }'
}

get() { curl --silent --show-error --fail --output /dev/null "$1"; }
several() { # number, at once, url
    local arguments=() i
    for ((i = 0; i < $1; i++)); do arguments+=(--output /dev/null "$3"); done
    curl --silent --show-error --fail --parallel --parallel-immediate --parallel-max "$2" "${arguments[@]}"
}

fetch() { # bar, host and port
    case "$1" in
        one) get "http://$2/100000" ;;
        ten|ten-cold) several 10 10 "http://$2/100000" ;;
        page) several 60 6 "http://$2/20000" ;;
        bulk) get "http://$2/100000000" ;;
        loopback) get "http://$2/2000000000" ;;
    esac
}

measure() { # bar, address of the other end
    local run direct forwarded
    [[ $1 == ten* ]] || forwarder "$2"
    for ((run = 1; run <= runs; run++)); do
        direct=$(seconds fetch "$1" "$2:8000")
        [[ $1 != ten* ]] || forwarder "$2"
        [[ $1 != ten ]] || get http://127.0.0.1:9000/2000000
        forwarded=$(seconds fetch "$1" 127.0.0.1:9000)
        echo "$1: direct $direct s, forwarded $forwarded s"
        [[ $1 != ten* ]] || kill "$forward"
    done
    [[ $1 == ten* ]] || kill "$forward"
}

if [[ $inside ]]; then
    work=$(mktemp -d)
    trap 'rm -r "$work"' EXIT
    measure "$1" "${2:-$LONGHAUL_OUTSIDE}"
    exit
fi

work=$(mktemp -d)
export XDG_DATA_HOME="$work" BIN="$bin"
python3 benches/zeros.py &
server=$!
"$bin/longhaul" gateway ${CONGESTION:+-C "$CONGESTION"} --allow "$("$bin/longhaul" identity)" --permit 127.0.0.1:8000 2>"$work/gateway" &
gateway=$!
trap 'kill $server $gateway; rm -r "$work"' EXIT
until grep -q '^Ready' "$work/gateway" && get http://127.0.0.1:8000/1; do sleep 0.2; done 2>/dev/null
for bar in "${@:-one}"; do
    if [[ $bar == loopback ]]; then
        "$0" --runs "$runs" --inside "$bar" 127.0.0.1
    else
        # shellcheck disable=SC2086
        "$bin/longhaul-linkem" shell ${LINKS[$bar]} -- "$0" --runs "$runs" --inside "$bar" 2>/dev/null
    fi | tee "$work/times"
    awk -v bar="$bar" '
        function median(a, n,   i, j, t) {
            for (i = 2; i <= n; i++) for (j = i; j > 1 && a[j - 1] > a[j]; j--) { t = a[j]; a[j] = a[j - 1]; a[j - 1] = t }
            return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
        }
        { direct[NR] = $3; forwarded[NR] = $6 }
        END { d = median(direct, NR); f = median(forwarded, NR)
              printf "%s: median of %d runs: direct %.2f s, forwarded %.2f s, ratio %.2f\n", bar, NR, d, f, f / d }' "$work/times"
done
