#!/usr/bin/env bash
# usage: benches/ssh.sh [--runs N] [--mb N] [--link lossy|long] [send|rsync|git|rsync-cubic|rsync-bbr|git-cubic|git-bbr]...
#
# Compares `rsync -e ssh` and `git clone` over ssh through `longhaul stdio` with `longhaul send` of as many bytes, behind
# the same emulated links, first contact included, and with the same over the kernel's TCP with CUBIC and BBR. Prints the
# time of each run in seconds, the median, and its ratio to that of `send`. Needs root (longhaul link shell), OpenSSH,
# rsync, git and the release build of longhaul-cli, or another in $BIN.
#
#   --link lossy   155 Mb/s, 65 ms, 0.5 % of loss
#   --link long    20 Mb/s, 600 ms, 0.1 % of loss
#   --mb N         megabytes, 200 without it
#
# Bar: at most 1.15 times `send`.
set -euo pipefail
self="$(realpath "${BASH_SOURCE[0]}")"
cd "$(dirname "$self")/.."

bin="$(realpath "${BIN:-${CARGO_TARGET_DIR:-target}/release}")"
export PATH="$bin:$PATH"
runs=1 links=() mb=200
while [[ ${1-} == --* ]]; do
    case "$1" in
        --runs) runs="$2"; shift 2 ;;
        --mb) mb="$2"; shift 2 ;;
        --link) links+=("$2"); shift 2 ;;
        --outside | --inside) side="$1"; shift; break ;;
        *) sed -n '2,3s/^# \?//p' "$self" >&2; exit 2 ;;
    esac
done
declare -A LINKS=(
    [lossy]='--rate 155mbit --rtt 65ms --loss 0.5% --queue 1bdp'
    [long]='--rate 20mbit --rtt 600ms --loss 0.1% --queue 1bdp'
)

# Sets the congestion control of the kernel's TCP on this end's route over the link, once there is one. A namespace may
# not choose any algorithm as its default.
kernel() { # what
    case "$1" in *-cubic | *-bbr) ;; *) return ;; esac
    until route="$(ip route show proto kernel | grep '^198\.18')"; do sleep 0.05; done
    # shellcheck disable=SC2086
    ip route change $route proto kernel congctl "${1#*-}"
}

# In the command's namespace: prints the seconds that the transfer takes.
if [[ ${side-} == --inside ]]; then
    what="$1" dir="$2"
    kernel "$what"
    export XDG_DATA_HOME="$dir/here"
    ssh="ssh -F none -i $dir/user -o BatchMode=yes -o LogLevel=ERROR -o StrictHostKeyChecking=accept-new"
    ssh+=" -o UserKnownHostsFile=$dir/known"
    case "$what" in
        rsync | git) ssh+=" -o ProxyCommand='longhaul stdio -q --accept-new $LONGHAUL_OUTSIDE localhost:22'" ;;
    esac
    start="$(date +%s%N)"
    case "$what" in
        send) longhaul send -q --accept-new "$LONGHAUL_OUTSIDE" "$dir/source/file" ;;
        rsync*) rsync -a -e "$ssh" "$dir/source/" "root@$LONGHAUL_OUTSIDE:$dir/copy/" ;;
        git*) GIT_SSH_COMMAND="$ssh" git clone -q "root@$LONGHAUL_OUTSIDE:$dir/repository" "$dir/clone" ;;
    esac
    echo "$((($(date +%s%N) - start) / 1000000))" >"$dir/time"
    exit
fi

# In a namespace of its own: starts the servers, and the link.
if [[ ${side-} == --outside ]]; then
    link="$1" what="$2" dir="$3" mb="$4"
    trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
    ip link set lo up
    mkdir -p /run/sshd "$dir/source" "$dir/here" "$dir/there"
    for key in host user; do ssh-keygen -q -t ed25519 -N '' -f "$dir/$key"; done
    if [[ $what == git* ]]; then
        git init -q "$dir/repository"
        for number in $(seq "$((mb / 2))"); do head -c 2000000 /dev/urandom >"$dir/repository/$number"; done
        git -C "$dir/repository" add .
        git -C "$dir/repository" -c user.name=x -c user.email=x@example -c gc.auto=0 commit -q -m all
        git -C "$dir/repository" repack -q -a -d --window=0
    else
        head -c "${mb}000000" /dev/urandom >"$dir/source/file"
    fi
    printf '%s\n' 'Port 22' "HostKey $dir/host" "AuthorizedKeysFile $dir/user.pub" 'StrictModes no' 'PidFile none' \
        'PermitRootLogin yes' 'UsePAM no' >"$dir/sshd"
    /usr/sbin/sshd -D -f "$dir/sshd" &
    here="$(XDG_DATA_HOME="$dir/here" longhaul identity)"
    export XDG_DATA_HOME="$dir/there"
    longhaul gateway -q --allow "$here" --permit localhost:22 2>/dev/null &
    longhaul receive -q --allow "$here" --out "$dir/out" 2>/dev/null &
    until [[ $(ss -lunt | grep -cE ':(22|7000|7443) ') -ge 3 ]]; do sleep 0.1; done
    kernel "$what" &
    # shellcheck disable=SC2086
    longhaul link shell ${LINKS[$link]} -- "$self" --inside "$what" "$dir" >"$dir/link" 2>&1 || cat "$dir/link" >&2
    exit
fi

[[ $# -gt 0 ]] || set -- send rsync git rsync-bbr git-bbr rsync-cubic git-cubic
[[ ${#links[@]} -gt 0 ]] || links=(lossy long)
for link in "${links[@]}"; do
    echo "$mb MB, ${LINKS[$link]}"
    of_send=''
    for what in "$@"; do
        times=()
        for _ in $(seq "$runs"); do
            dir="$(mktemp -d /dev/shm/longhaul-ssh.XXXXXX)"
            unshare --net "$self" --outside "$link" "$what" "$dir" "$mb"
            times+=("$(cat "$dir/time")")
            rm -rf "$dir"
        done
        median="$(printf '%s\n' "${times[@]}" | sort -n | sed -n "$(((runs + 1) / 2))p")"
        [[ $what != send ]] || of_send="$median"
        awk -v what="$what" -v times="${times[*]}" -v median="$median" -v send="${of_send:-0}" 'BEGIN {
            printf "  %-12s", what
            for (i = split(times, all, " "); i > 0; i--) printf " %.1f", all[i] / 1000
            printf "   median %.1f s", median / 1000
            if (send > 0) printf ", %.2f times send", median / send
            print ""
        }'
    done
done
