#include "agent/net/inheritance.h"

#include <string.h>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/stat.h>

/* What goes before the text. */
struct wire {
    uint64_t unix_dev;
    uint64_t unix_ino;
};

enum channel_status inheritance_send(int channel_fd, const char *text,
                                     const struct listening *listening)
{
    struct wire wire = {.unix_dev = listening->unix_dev,
                        .unix_ino = listening->unix_ino};
    struct iovec parts[] = {channel_part(&wire, sizeof(wire)),
                            channel_part(text, strlen(text))};
    return channel_send(channel_fd, CHANNEL_LISTENER, parts, ARRAY_LEN(parts),
                        listening->fd);
}

static bool is_listening(int fd)
{
    int is_on = 0;
    socklen_t len = sizeof(is_on);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_on, &len) == 0 && is_on;
}

static bool decode(struct inherited *inherited, const struct channel_packet *packet,
                   const uint8_t *bytes)
{
    struct wire wire;
    struct address address;
    char error[ADDRESS_ERROR_BYTES_MAX];
    memset(inherited, 0, sizeof(*inherited));
    if (packet->len <= sizeof(wire)
        || packet->len - sizeof(wire) >= sizeof(inherited->text)) {
        return false;
    }
    memcpy(&wire, bytes, sizeof(wire));
    memcpy(inherited->text, bytes + sizeof(wire), packet->len - sizeof(wire));
    if (!address_parse(&address, inherited->text, error) || !is_listening(packet->fd)) {
        return false;
    }
    inherited->listening = (struct listening){.fd = packet->fd, .is_foreign = true};
    if (address.sockaddr.ss_family == AF_UNIX) {
        const struct sockaddr_un *un = (const struct sockaddr_un *)&address.sockaddr;
        inherited->listening.unix_dev = (dev_t)wire.unix_dev;
        inherited->listening.unix_ino = (ino_t)wire.unix_ino;
        memcpy(inherited->listening.unix_path, un->sun_path, sizeof(un->sun_path));
    }
    return true;
}

bool inheritance_receive(struct inheritance *inheritance,
                         const struct channel_packet *packet, const uint8_t *bytes)
{
    if (inheritance->n < INHERITANCE_MAX
        && decode(&inheritance->items[inheritance->n], packet, bytes)) {
        inheritance->n++;
        return true;
    }
    (void)close(packet->fd);
    return false;
}

/* The mode is what may be configured anew. */
static void set_mode(const struct address *address, const struct listening *listening)
{
    if (address_has_file(listening)) {
        (void)chmod(listening->unix_path, address->unix_mode);
    }
}

bool inheritance_listen(struct inheritance *inheritance, const struct address *address,
                        struct listening *listening, char *error)
{
    unsigned n = inheritance != NULL ? inheritance->n : 0;
    for (unsigned i = 0; i < n; i++) {
        struct inherited *item = &inheritance->items[i];
        if (item->listening.fd >= 0 && strcmp(item->text, address->text) == 0) {
            *listening = item->listening;
            item->listening = (struct listening){.fd = -1};
            set_mode(address, listening);
            return true;
        }
    }
    return address_listen(address, listening, error);
}

void inheritance_close(struct inheritance *inheritance, bool is_ours)
{
    for (unsigned i = 0; i < inheritance->n; i++) {
        inheritance->items[i].listening.is_foreign = !is_ours;
        address_unlisten(&inheritance->items[i].listening);
    }
    inheritance->n = 0;
}
