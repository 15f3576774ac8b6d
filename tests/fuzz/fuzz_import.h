/* What the fuzz targets of imports share: any bytes as a text, with and without a device named. */
#ifndef REHEARSE_TESTS_FUZZ_IMPORT_H
#define REHEARSE_TESTS_FUZZ_IMPORT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "platform/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef enum rh_status (*import_function)(const struct import *import, const char *text,
                                          struct node_record **node);

static int fuzz_import(import_function read, const uint8_t *data, size_t size)
{
    static struct platform *platform; /* opened once: the fuzzer's loop has no other place */
    char *text = malloc(size + 1);
    if (!text || (!platform && platform_open(&platform) != RH_OK))
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    const char *const devices[] = {NULL, "a100-sxm4-40gb", "rtx-3090"};
    for (int i = 0; i < 3; i++) {
        struct import import = {platform, "fuzz", devices[i], "fuzz"};
        struct node_record *node = NULL;
        if (read(&import, text, &node) == RH_OK) {
            cJSON_Delete(node_to_json(&node->model));
            node_free(node);
        }
    }
    free(text);
    return 0;
}

#endif
