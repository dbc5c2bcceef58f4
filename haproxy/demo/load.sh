#!/bin/bash
# load.sh: clients of a new site, through both proxies at the same time, and who of them was
# limited. Run by `stack.sh load`, in a container beside the proxies.
# Exit code: 0 as many were allowed as the limits say, 1 not.
set -euo pipefail

site=load-$(date +%s).example
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0

# What curl is to fetch: through both proxies in turn.
list_requests() { # PATH N_A N_B
    local i
    for ((i = 1; i <= $2 || i <= $3; i++)); do
        if ((i <= $2)); then
            printf 'url = "http://proxy-a:8080%s?%d"\noutput = "/dev/null"\n' "$1" "$i"
        fi
        if ((i <= $3)); then
            printf 'url = "http://proxy-b:8080%s?%d"\noutput = "/dev/null"\n' "$1" "$i"
        fi
    done
}

# Several requests at a time; a line for each answer: client, URL, status, and the values of
# RateLimit-Policy and RateLimit.
drive() { # CLIENT PATH N_A N_B
    list_requests "${@:2}" | curl -s -m 30 -Z --parallel-max 6 -H "Host: $site" -H "X-Api-Key: $1" -K - \
        -w "$1 %{url_effective} %{http_code} %header{ratelimit-policy} %header{ratelimit}\n" 2>/dev/null || true
}

# Where Redis did not decide, there is no RateLimit. Each worker of the agents has a connection
# to Redis, hence so many.
is_decided_by_redis() {
    drive warm-up /v1/warm-up 20 20 | awk '$5 != "" { n++ } END { exit n < 40 }'
}

wait_for_redis() {
    local give_up=$((SECONDS + 60))
    until is_decided_by_redis; do
        if ((SECONDS >= give_up)); then
            echo "load.sh: after 60 s not all requests are decided by Redis" >&2
            exit 1
        fi
        sleep 0.5
    done
}

# Lines "CLIENT N_A N_B" say who sends how much through which proxy. SCOPE is whom the limit
# counts: each `client`, or `all`.
act() { # SCOPE PATH
    local client n_a n_b
    rm -f "$work"/*
    while read -r client n_a n_b; do
        drive "$client" "$2" "$n_a" "$n_b" >"$work/$client" &
    done
    wait
    cat "$work"/* | awk -v scope="$1" "$tables" || wrong=1
}

# shellcheck disable=SC2016 # awk's own
tables='
function number(text, name) {
    return match(text, ";" name "=[0-9]+") ? substr(text, RSTART + length(name) + 2) + 0 : 0
}
function row(who) {
    printf "%-8s %8d %8d   %8d %8d   %8d %8d %8d\n", who, sent[who, "proxy-a"], allowed[who, "proxy-a"],
        sent[who, "proxy-b"], allowed[who, "proxy-b"], sent[who], allowed[who], sent[who] - allowed[who]
}
function count(table, who) {
    table[who]++
    table[who, substr($2, 8, 7)]++ # behind http://
}
function judge(who,    wanted) {
    wanted = sent[who] < limit ? sent[who] : limit
    if (allowed[who] != wanted) {
        printf "not as it should be: %d of %s were allowed, not %d\n", allowed[who], who, wanted
        wrong = 1
    }
}
{
    if (!($1 in sent)) {
        clients[++n] = $1
    }
    count(sent, $1)
    count(sent, "all")
    if ($3 == 200) {
        count(allowed, $1)
        count(allowed, "all")
    }
    if (($3 != 200 && $3 != 429) || $5 == "") {
        others[$3]++
        n_others++
    } else {
        limit = number($4, "q")
        per_s = number($4, "w")
        rule = substr($4, 2, index(substr($4, 2), "\"") - 1)
    }
}
END {
    printf "\n%s: %d in %d s, %s\n", rule, limit, per_s, scope == "all" ? "all clients together" : "each client"
    printf "%-8s %17s   %17s   %26s\n", "", "proxy-a", "proxy-b", "both"
    printf "%-8s %8s %8s   %8s %8s   %8s %8s %8s\n", "client", "requests", "allowed", "requests", "allowed",
        "requests", "allowed", "refused"
    for (i = 1; i <= n; i++) {
        row(clients[i])
        if (scope != "all") {
            judge(clients[i])
        }
    }
    row("all")
    if (scope == "all") {
        judge("all")
    }
    for (status in others) {
        printf "not as it should be: %d answers with status %s were not decided by Redis\n", others[status], status
    }
    exit wrong || n_others > 0
}'

wait_for_redis
act client /v1/things <<'END'
alice 30 30
bob 60 0
carol 10 5
dave 4 5
END
act all /v1/exports <<'END'
alice 40 40
bob 20 20
carol 0 40
dave 20 20
END

echo
if ((wrong)); then
    echo "Not exactly the limits were allowed."
else
    echo "Exactly the limits were allowed, through both proxies together."
fi
exit "$wrong"
