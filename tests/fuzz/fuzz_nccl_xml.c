/* libFuzzer target: any bytes as an NCCL topology XML. Not built by default:
 * clang -fsanitize=fuzzer,address,undefined with src/platform, src/op and src/base. */
#include "fuzz_import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return fuzz_import(import_nccl, data, size);
}
