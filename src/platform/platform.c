/* The folders of data files, what was read from them, and their names. */
#include "platform/platform.h"

#include <assert.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "platform/private.h"

static const char *const kind_folder[] = {"devices", "nodes", "clusters"};
static const char *const kind_noun[] = {"device", "node", "cluster"};

static void add_folder(struct platform *p, const char *folder, size_t length)
{
    if (length)
        *ARRAY_ADD(p->folders, p->folder_count, p->folder_capacity) =
            text_format("%.*s", (int)length, folder);
}

enum rh_status platform_open(struct platform **platform)
{
    struct platform *p = memory_new(sizeof *p);
    const char *list = getenv("REHEARSE_PLATFORMS");
    while (list && *list) {
        size_t length = strcspn(list, ":");
        add_folder(p, list, length);
        list += length + (list[length] == ':');
    }
    add_folder(p, "platforms", strlen("platforms"));
#ifdef REHEARSE_DATADIR
    add_folder(p, REHEARSE_DATADIR "/platforms", strlen(REHEARSE_DATADIR "/platforms"));
#endif
    *platform = p;
    return RH_OK;
}

static void free_texts(char **texts, int count)
{
    for (int i = 0; i < count; i++)
        free(texts[i]);
    free(texts);
}

void platform_close(struct platform *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->node_count; i++)
        node_free(p->nodes[i]);
    for (int i = 0; i < p->device_count; i++)
        device_free(p->devices[i]);
    for (int i = 0; i < p->file_count; i++)
        free((char *)(uintptr_t)p->files[i].path);
    for (int kind = 0; kind <= PLATFORM_CLUSTER; kind++)
        free_texts(p->names[kind].names, p->names[kind].count);
    free_texts(p->folders, p->folder_count);
    free_texts(p->device_keys, p->device_key_count);
    free_texts(p->node_keys, p->node_key_count);
    free(p->nodes);
    free(p->devices);
    free(p->files);
    free(p);
}

static bool ends_with(const char *text, const char *suffix)
{
    size_t length = strlen(text);
    size_t tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

bool platform_is_path(const char *name)
{
    return strchr(name, '/') || ends_with(name, ".json") || ends_with(name, ".xml");
}

/* The path of a named file, or NULL. */
static char *find(struct platform *p, enum platform_kind kind, const char *name)
{
    for (int i = 0; i < p->folder_count; i++) {
        char *path = text_format("%s/%s/%s.json", p->folders[i], kind_folder[kind], name);
        if (access(path, R_OK) == 0)
            return path;
        free(path);
    }
    return NULL;
}

bool platform_has(struct platform *p, enum platform_kind kind, const char *name)
{
    char *path = find(p, kind, name);
    free(path);
    return path != NULL;
}

enum rh_status platform_unknown(struct platform *p, enum platform_kind kind, const char *name)
{
    int count = 0;
    const char *const *names = platform_names(p, kind, &count);
    if (!count)
        return fail(RH_INVALID,
                    "unknown %s '%s': no %s files are in ./platforms or in REHEARSE_PLATFORMS",
                    kind_noun[kind], name, kind_noun[kind]);
    int index = 0;
    enum rh_status status = json_choice(kind_noun[kind], name, names, count, &index);
    if (status == RH_OK) /* the list was read before the file was taken away */
        status = fail(RH_INVALID, "%s '%s' cannot be read", kind_noun[kind], name);
    return status;
}

enum rh_status platform_locate(struct platform *p, enum platform_kind kind, const char *name,
                               struct located *file)
{
    if (platform_is_path(name)) {
        *file = (struct located){text_copy(name), text_copy(name)};
        return RH_OK;
    }
    char *path = find(p, kind, name);
    if (!path)
        return platform_unknown(p, kind, name);
    /* the same wherever the folder lies, so that reports of two machines can be compared */
    *file = (struct located){path, text_format("platforms/%s/%s.json", kind_folder[kind], name)};
    return RH_OK;
}

enum rh_status platform_read_text(struct platform *p, const struct located *file, char **text,
                                  uint64_t *hash)
{
    size_t bytes = 0;
    *text = text_read_file(file->path, &bytes);
    if (!*text)
        return RH_INVALID;
    *hash = text_hash(*text, bytes);
    for (int i = 0; i < p->file_count; i++)
        if (p->files[i].hash == *hash && strcmp(p->files[i].path, file->shown) == 0)
            return RH_OK;
    *ARRAY_ADD(p->files, p->file_count, p->file_capacity) =
        (struct platform_file){text_copy(file->shown), *hash};
    return RH_OK;
}

enum rh_status platform_read_json(struct platform *p, const struct located *file, cJSON **json,
                                  uint64_t *hash)
{
    char *text = NULL;
    RETURN_IF_FAILED(platform_read_text(p, file, &text, hash));
    enum rh_status status = json_read_text(file->shown, text, json);
    free(text);
    return status;
}

const struct platform_file *platform_files(const struct platform *p, int *count)
{
    *count = p->file_count;
    return p->files;
}

/* A file that was found by its name must carry that name. */
static enum rh_status check_name(enum platform_kind kind, const char *asked, const char *name)
{
    if (platform_is_path(asked) || strcmp(asked, name) == 0)
        return RH_OK;
    return fail(RH_INVALID, "%s '%s': the file's own 'name' is '%s'", kind_noun[kind], asked, name);
}

enum rh_status platform_device(struct platform *p, const char *name,
                               const struct device_model **out)
{
    for (int i = 0; i < p->device_key_count; i++) {
        if (strcmp(p->device_keys[i], name) == 0) {
            *out = p->devices[i];
            return RH_OK;
        }
    }
    struct located file;
    RETURN_IF_FAILED(platform_locate(p, PLATFORM_DEVICE, name, &file));
    cJSON *json = NULL;
    uint64_t hash = 0;
    struct device_model *device = NULL;
    char *where = text_format("device '%s'", name);
    enum rh_status status = platform_read_json(p, &file, &json, &hash);
    if (status == RH_OK)
        status = device_read(json, where, &device);
    if (status == RH_OK)
        status = check_name(PLATFORM_DEVICE, name, device->name);
    if (status == RH_OK) {
        device->file_hash = hash;
        *ARRAY_ADD(p->devices, p->device_count, p->device_capacity) = device;
        *ARRAY_ADD(p->device_keys, p->device_key_count, p->device_key_capacity) = text_copy(name);
        *out = device;
    } else {
        device_free(device);
    }
    cJSON_Delete(json);
    free(where);
    free(file.path);
    free(file.shown);
    return status;
}

void platform_keep_node(struct platform *p, const char *key, struct node_record *node)
{
    *ARRAY_ADD(p->nodes, p->node_count, p->node_capacity) = node;
    *ARRAY_ADD(p->node_keys, p->node_key_count, p->node_key_capacity) = text_copy(key);
}

enum rh_status platform_node(struct platform *p, const char *name, const struct node_model **out)
{
    for (int i = 0; i < p->node_key_count; i++) {
        if (strcmp(p->node_keys[i], name) == 0) {
            *out = &p->nodes[i]->model;
            return RH_OK;
        }
    }
    struct located file;
    RETURN_IF_FAILED(platform_locate(p, PLATFORM_NODE, name, &file));
    cJSON *json = NULL;
    uint64_t hash = 0;
    struct node_record *node = NULL;
    char *where = text_format("node '%s'", name);
    enum rh_status status = platform_read_json(p, &file, &json, &hash);
    if (status == RH_OK)
        status = node_read(p, json, where, &node);
    if (status == RH_OK)
        status = check_name(PLATFORM_NODE, name, node->model.name);
    if (status == RH_OK) {
        node->model.file_hash = hash;
        platform_keep_node(p, name, node);
        *out = &node->model;
    } else {
        node_free(node);
    }
    cJSON_Delete(json);
    free(where);
    free(file.path);
    free(file.shown);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void read_names(struct platform *p, enum platform_kind kind, struct name_list *list)
{
    for (int i = 0; i < p->folder_count; i++) {
        char *path = text_format("%s/%s", p->folders[i], kind_folder[kind]);
        DIR *folder = opendir(path);
        free(path);
        if (!folder)
            continue;
        for (struct dirent *entry; (entry = readdir(folder));)
            if (entry->d_name[0] != '.' && ends_with(entry->d_name, ".json"))
                *ARRAY_ADD(list->names, list->count, list->capacity) = text_format(
                    "%.*s", (int)(strlen(entry->d_name) - strlen(".json")), entry->d_name);
        closedir(folder);
    }
    if (list->count)
        qsort(list->names, (size_t)list->count, sizeof *list->names, compare_names);
    int kept = 0;
    for (int i = 0; i < list->count; i++) {
        if (kept && strcmp(list->names[kept - 1], list->names[i]) == 0)
            free(list->names[i]);
        else
            list->names[kept++] = list->names[i];
    }
    list->count = kept;
    list->read = true;
}

const char *const *platform_names(struct platform *p, enum platform_kind kind, int *count)
{
    assert((unsigned)kind <= PLATFORM_CLUSTER);
    struct name_list *list = &p->names[kind];
    if (!list->read)
        read_names(p, kind, list);
    *count = list->count;
    return (const char *const *)list->names;
}
