# Read by the scripts beside it: a directory that goes in the end, and the process `$server`, which ends with the script.
cookhouse=${FUZZ_BINARY:-$PWD/target/debug/cookhouse}
[ -x "$cookhouse" ] || cargo build --locked --bin cookhouse

place=$(mktemp -d)
server=
end() {
    [ -z "$server" ] || kill -INT "$server" 2>/dev/null || true
    [ -z "$server" ] || wait "$server" 2>/dev/null || true
    rm -rf "$place"
}
trap end EXIT
trap 'exit 130' INT TERM

# A free port of this machine.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Waits while the server starts: shows what `$1` says of it, and fails, when it ends instead.
until_it_says() {
    log=$1
    shift
    for _ in $(seq 1200); do
        if "$@"; then return; fi
        kill -0 "$server" || { cat "$log"; exit 1; }
        sleep 0.1
    done
    cat "$log"
    exit 1
}
