/* carry WORDS: rank 0 hands WORDS to all, twice, as NCCL's id is; each prints what it got. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/carry.h"

int main(int argc, char **argv)
{
    struct rank self;
    enum rh_status status = rank_read(&self);
    for (int round = 0; round < 2 && status == RH_OK; round++) {
        char words[128] = "";
        if (self.rank == 0)
            snprintf(words, sizeof words, "%s %d", argc > 1 ? argv[1] : "", round);
        status = carry_share(&self, 10, words, sizeof words);
        if (status == RH_OK)
            printf("rank %d of %d: %s\n", self.rank, self.ranks, words);
    }
    if (status != RH_OK)
        fprintf(stderr, "%s\n", fail_message());
    const char *failing = getenv("CARRY_FAILS"); /* that rank fails afterwards, while others wait */
    if (status == RH_OK && failing)
        status = atoi(failing) == self.rank ? RH_FAILED : RH_OK;
    return (int)status;
}
