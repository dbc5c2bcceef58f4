# assemble.cmake: puts a script together and writes it as a C source (agent_script).
#
#   cmake -D NAME=SYMBOL -D OUTPUT=FILE.c -D CLOCK=FILE.lua -D DIR=agent -D BODY=FILE.lua -P assemble.cmake
#
# BODY=beat.lua stands on CLOCK alone, the others on all counters: each algorithm becomes the
# body of a function, which is called when a limit has it; numbered as in enum limit_algorithm.
# So do the records, for a counter that has some: a call that needs neither pays for neither.
set(algorithms sliding_window token_bucket fixed_window leaky_bucket sliding_log)

file(READ ${CLOCK} clock)
file(READ ${DIR}/limit/limit.lua limit)
file(READ ${DIR}/redis/records.lua records)
file(READ ${DIR}/redis/counter.lua counter)
file(READ ${BODY} body)

set(chain "local algorithms = {}\nlocal function algorithm(number)\n")
string(APPEND chain "    if algorithms[number] then\n        return algorithms[number]\n")
set(number 0)
foreach(name IN LISTS algorithms)
    file(READ ${DIR}/limit/${name}.lua text)
    string(APPEND chain "    elseif number == ${number} then\n"
                        "algorithms[${number}] = (function()\n${text}end)()\n")
    math(EXPR number "${number} + 1")
endforeach()
string(APPEND chain "    end\n    return algorithms[number]\nend\n")

string(APPEND chain "local made_records\nlocal function records()\n"
                    "    if not made_records then\nmade_records = (function()\n${records}end)()\n"
                    "    end\n    return made_records\nend\n")

set(script "${clock}${limit}${chain}${counter}${body}")
if(BODY MATCHES "/beat.lua$")
    set(script "${clock}${body}")
endif()
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
