#!/bin/sh
# Write windows.txt anew: days, weeks and months of many zones as GNU date sees them. A
# window begins where a later date shows than any before. Days and weeks are listed where
# they are longer or shorter than usual, months all: zone, unit, first second, end.
set -eu
export LC_ALL=C

windows() { # ZONE FIRST-YEAR LAST-YEAR STEP
    from=$(date -u -d "$2-01-01 00:00" +%s)
    to=$(date -u -d "$(($3 + 1))-01-03 00:00" +%s)
    seq "$((from - 172800))" "$4" "$to" | sed 's/^/@/' |
        TZ=$1 date -f - '+%s %Y-%m-%d %G-%V %Y-%m' |
        awk -v zone="$1" '
            function turn(unit, label, usual) {
                if (label > last[unit]) {
                    if (n[unit]++ > 1 && $1 - start[unit] != usual)
                        print zone, unit, start[unit], $1
                    start[unit] = $1
                    last[unit] = label
                }
            }
            { turn("day", $2, 86400); turn("week", $3, 604800); turn("month", $4, 0) }'
}

cd "$(dirname "$0")"
{
    windows UTC 2024 2024 900
    windows UTC 2100 2100 900
    windows Europe/Berlin 2024 2025 900
    windows Europe/Berlin 2100 2100 900
    windows Europe/London 2000 2000 900
    windows Europe/Dublin 2025 2025 900
    windows America/New_York 2007 2007 900
    windows America/New_York 2040 2040 900
    windows America/Havana 2019 2019 900
    windows America/Santiago 2023 2023 900
    windows America/Sao_Paulo 2018 2018 900
    windows America/St_Johns 2010 2010 60
    windows Africa/Cairo 2024 2024 900
    windows Africa/Casablanca 2023 2023 900
    windows Antarctica/Troll 2024 2024 900
    windows Asia/Beirut 2021 2021 900
    windows Asia/Kathmandu 2024 2024 900
    windows Asia/Tehran 2022 2022 900
    windows Australia/Lord_Howe 2024 2024 900
    windows Pacific/Apia 2011 2011 900
    windows Pacific/Chatham 2024 2024 900
    windows Pacific/Kwajalein 1993 1993 900
} >windows.txt
