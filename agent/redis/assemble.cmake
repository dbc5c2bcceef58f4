# assemble.cmake: puts a script together and writes it as a C source (agent_script).
#
#   cmake -D NAME=SYMBOL -D OUTPUT=FILE.c -D CLOCK=FILE.lua -D DIR=agent -D BODY=FILE.lua -P assemble.cmake
#
# BODY=beat.lua stands on CLOCK alone, the others on all counters: each algorithm becomes a
# branch of a function, which is called once when a limit has it; numbered as in enum
# limit_algorithm. The records become a function's body, for a counter that has some: a call
# that needs neither pays for neither.
#
# Redis runs a script from its first line at each call, and there a local that functions use
# is an object, made and thrown away. So constants (`local NAME = ...` in capitals, of numbers
# and formats) do not stay locals: their values are put where their names stand. Those of an
# algorithm and of the records are their own, the others hold for all.
set(algorithms sliding_window token_bucket fixed_window leaky_bucket sliding_log)

# Puts the values of the constants that the script in a variable defines where they are used.
function(put_constants variable)
    set(text "\n${${variable}}")
    string(REGEX MATCHALL "\nlocal [A-Z][A-Z_]*(, [A-Z][A-Z_]*)* = [^\n]+" lines "${text}")
    foreach(line IN LISTS lines)
        string(REGEX REPLACE " --.*" "" line "${line}")
        string(REGEX MATCH "^\nlocal (.*) = (.*)" line "${line}")
        string(REPLACE ", " ";" names "${CMAKE_MATCH_1}")
        string(REPLACE ", " ";" values "${CMAKE_MATCH_2}")
        string(REPLACE "${line}" "" text "${text}")
        foreach(name value IN ZIP_LISTS names values)
            string(REGEX REPLACE "([^A-Z_a-z])${name}([^A-Z_a-z])" "\\1(${value})\\2" text "${text}")
        endforeach()
    endforeach()
    set(${variable} "${text}" PARENT_SCOPE)
endfunction()

file(READ ${CLOCK} clock)
file(READ ${DIR}/limit/limit.lua limit)
file(READ ${DIR}/redis/records.lua records)
file(READ ${DIR}/redis/counter.lua counter)
file(READ ${BODY} body)
put_constants(records)

set(chain "local function algorithm(number)\n")
set(number 0)
set(if "if")
foreach(name IN LISTS algorithms)
    file(READ ${DIR}/limit/${name}.lua text)
    put_constants(text)
    string(APPEND chain "    ${if} number == ${number} then\n${text}")
    math(EXPR number "${number} + 1")
    set(if "elseif")
endforeach()
string(APPEND chain "    end\nend\n")

string(APPEND chain "local made_records\nlocal function records()\n"
                    "    if not made_records then\nmade_records = (function()\n${records}end)()\n"
                    "    end\n    return made_records\nend\n")

set(script "${clock}${limit}${chain}${counter}${body}")
if(BODY MATCHES "/beat.lua$")
    set(script "${clock}${body}")
endif()
put_constants(script)
string(SHA1 sha1 "${script}")
string(LENGTH "${script}" bytes)
string(HEX "${script}" hex)
string(REGEX REPLACE "(..)" "0x\\1," array "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" array "${array}")
file(WRITE ${OUTPUT}
"#include \"agent/redis/script.h\"

static const char text[] = {
${array}
};

const struct script ${NAME} = {
    .text = text,
    .text_bytes = sizeof(text),
    .sha1 = \"${sha1}\",
};
")
