#include "agent/control/diags.h"

#include <inttypes.h>
#include <stdlib.h>

#include "agent/log.h"

struct rules_diags *diags_new(const char *path)
{
    struct rules_diags *diags = malloc(sizeof(*diags));
    if (diags != NULL) {
        rules_diags_init(diags, path);
    }
    return diags;
}

void diags_log(const struct rules_diags *diags)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = diags->n_kept > 0 ? open_memstream(&text, &len) : NULL;
    if (out == NULL) {
        return;
    }
    rules_diags_print(diags, out);
    if (fclose(out) == 0) {
        log_text(text);
    }
    free(text);
}

void diags_first_error(const struct rules_diags *diags, char *error, size_t size)
{
    for (uint32_t i = 0; i < diags->n_kept; i++) {
        const struct rules_diag *diag = &diags->kept[i];
        if (diag->severity == RULES_ERROR) {
            (void)snprintf(error, size,
                           "%s%sline %" PRIu32 ", column %" PRIu32 ": %.200s [%s]",
                           diag->file, diag->file[0] != '\0' ? ": " : "",
                           diag->mark.line, diag->mark.column, diag->text, diag->code);
            return;
        }
    }
}
