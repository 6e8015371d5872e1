#!/bin/sh
# Compiles benches/asm/asm.rs to assembly and holds its fast paths against the counts below (see ASSEMBLY.md).
# Usage: benches/check-asm.sh [--show]     x86-64 only; prints the functions with --show.
set -eu
cd "$(dirname "$0")/.."

if [ "$(uname -m)" != x86_64 ]; then
    echo "check-asm: skipped, the counts are for x86-64"
    exit 0
fi
target=${CARGO_TARGET_DIR:-target}
asm=$target/asm.s
mkdir -p "$target"
rm -f "$asm"
# Cargo does not know about the file that was just removed.
touch benches/asm/asm.rs
cargo rustc --quiet --release --example asm -- --emit asm="$asm" -C codegen-units=1

# Prints the instructions and labels of the function named $1.
body() {
    awk -v mark="${#1}$1" '
        !inside && /^[_A-Za-z].*:$/ && $0 ~ ("3asm" mark "(17h|:|[^0-9a-z_])") { inside = 1; next }
        inside && /^\.Lfunc_end/ { exit }
        inside && (/^\.LBB/ || /^\t[a-z]/) { print }
    ' "$asm"
}

# The same up to the first return: the fast path, since slow paths are laid out behind it.
fast() { body "$1" | awk '{ print } /^\tret/ { exit }'; }

count() { grep -Ec "$1" || true; }

failed=0
printf '%-18s %12s %10s %8s %7s\n' function instructions branches calls atomics
# check NAME INSTRUCTIONS BRANCHES: at most so many up to the first return, no call there, and no locked
# instruction anywhere.
check() {
    if [ "$(body "$1" | wc -l)" -eq 0 ]; then
        echo "check-asm: no function $1 in $asm" >&2
        failed=1
        return
    fi
    instructions=$(fast "$1" | count '^	[a-z]')
    branches=$(fast "$1" | count '^	j[a-z]+' )
    calls=$(fast "$1" | count '^	call')
    atomics=$(body "$1" | count '^	(lock|xchg|mfence)')
    printf '%-18s %8s/%-3s %6s/%-3s %8s %7s\n' "$1" "$instructions" "$2" "$branches" "$3" "$calls" "$atomics"
    if [ "$instructions" -gt "$2" ] || [ "$branches" -gt "$3" ] || [ "$calls" -gt 0 ] || [ "$atomics" -gt 0 ]; then
        echo "check-asm: $1 is worse than it was" >&2
        failed=1
    fi
}
check slot_load 2 0
check slot_store 6 1
check poll 5 1
check alloc_values 20 1
check alloc_node 23 2

# In loops the heap's address is loaded once, before the loop: never again from the token, which comes in %rdi.
for loop in slot_store_loop poll_loop; do
    loads=$(body "$loop" | awk '
        /^\tmov.*%rdi, %r/ { sub(/.*, /, ""); token[$0] = 1 }
        /^\tmovq\t\(%r[a-z0-9]+\), / { r = $2; gsub(/[(),]/, "", r); if (r == "%rdi" || r in token) n++ }
        END { print n + 0 }')
    echo "$loop: $loads load(s) of the heap's address"
    if [ "$loads" -ne 1 ]; then
        echo "check-asm: $loop loads the heap's address more than once" >&2
        failed=1
    fi
done

if [ "${1-}" = --show ]; then
    for f in slot_load slot_store slot_store_loop poll poll_loop alloc_values alloc_node; do
        echo
        echo "$f:"
        body "$f"
    done
fi
exit $failed
