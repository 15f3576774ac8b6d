#include "strategy/bucket_assign.h"

#include <stdbool.h>
#include <stdlib.h>

#include "base/memory.h"

struct open_bucket {
    int key;
    bool open;
    int first_item, limit;
    int64_t bytes;
};

static struct open_bucket *find_key(struct open_bucket *buckets, int *count, int key)
{
    for (int i = 0; i < *count; i++)
        if (buckets[i].key == key)
            return &buckets[i];
    buckets[*count] = (struct open_bucket){.key = key};
    return &buckets[(*count)++];
}

/* Gives the items of the open bucket (key's items since first_item that have none yet) their
 * number. */
static void close_bucket(struct open_bucket *bucket, const struct bucket_item *items, int end,
                         int number, int *bucket_of_item)
{
    for (int i = bucket->first_item; i < end; i++)
        if (items[i].key == bucket->key && bucket_of_item[i] < 0)
            bucket_of_item[i] = number;
    bucket->open = false;
}

int bucket_assign(const struct bucket_item *items, int count, const int64_t *limits,
                  int limit_count, int *bucket_of_item)
{
    struct open_bucket *keys = memory_new_array((size_t)count + 1, sizeof *keys);
    int key_count = 0;
    int closed = 0;
    for (int i = 0; i < count; i++)
        bucket_of_item[i] = -1;
    for (int i = 0; i < count; i++) {
        struct open_bucket *bucket = find_key(keys, &key_count, items[i].key);
        if (!bucket->open) {
            bucket->open = true;
            bucket->first_item = i;
            bucket->bytes = 0;
        }
        bucket->bytes += items[i].bytes;
        int64_t limit = limits[bucket->limit];
        if (limit >= 0 && bucket->bytes >= limit) {
            close_bucket(bucket, items, i + 1, closed++, bucket_of_item);
            if (bucket->limit + 1 < limit_count)
                bucket->limit++;
        }
    }
    for (int i = 0; i < count; i++)
        if (bucket_of_item[i] < 0)
            close_bucket(find_key(keys, &key_count, items[i].key), items, count, closed++,
                         bucket_of_item);
    free(keys);
    return closed;
}
