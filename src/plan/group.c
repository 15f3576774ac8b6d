#include "plan/group.h"

int group_size(const struct mesh *mesh, const struct group *group)
{
    int size = 1;
    if (group->coordinate_count > 0)
        return group->coordinate_count;
    for (int axis = 0; axis < mesh->axis_count; axis++)
        if (group->axes >> axis & 1)
            size *= mesh->size[axis];
    return size;
}

int group_member(const struct mesh *mesh, const struct group *group, int worker, int index)
{
    int coordinate[MESH_MAX_AXES];
    mesh_coordinate(mesh, worker, coordinate);
    for (int axis = mesh->axis_count - 1; axis >= 0; axis--) {
        if (!(group->axes >> axis & 1))
            continue;
        if (group->coordinate_count > 0) {
            coordinate[axis] = group->coordinates[index];
            break;
        }
        coordinate[axis] = index % mesh->size[axis];
        index /= mesh->size[axis];
    }
    return mesh_worker(mesh, coordinate);
}

int group_root(const struct group *group, int root_coordinate)
{
    for (int i = 0; i < group->coordinate_count; i++)
        if (group->coordinates[i] == root_coordinate)
            return i;
    return root_coordinate;
}

int group_peer(const struct mesh *mesh, const struct group *group, int worker, struct peer peer)
{
    int coordinate[MESH_MAX_AXES];
    int axis = 0;
    while (!(group->axes >> axis & 1))
        axis++;
    int size = mesh->size[axis];
    mesh_coordinate(mesh, worker, coordinate);
    coordinate[axis] =
        peer.relative ? ((coordinate[axis] + peer.value) % size + size) % size : peer.value;
    return mesh_worker(mesh, coordinate);
}
