#include "agent/redis/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

enum {
    TLS_NAME_BYTES_MAX = 256
};

struct tls {
    SSL_CTX *context;
};

static const char *last_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_last_error());
    return reason != NULL ? reason : "unknown error";
}

/* OpenSSL would wait for a FIFO, and does not tell why it cannot open a file. */
static bool is_file(const char *path, char *error)
{
    struct stat stat;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool is_regular = fd >= 0 && fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
    if (!is_regular) {
        (void)snprintf(error, TLS_ERROR_BYTES_MAX, "%s: %s", path,
                       fd < 0 ? strerrordesc_np(errno) : "is no regular file");
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_regular;
}

/* OpenSSL would ask on the terminal.
 * NOLINTNEXTLINE(readability-non-const-parameter): the type is OpenSSL's */
static int refuse_passphrase(char *passphrase, int size, int is_writing, void *data)
{
    bool *is_asked = data;
    (void)passphrase;
    (void)size;
    (void)is_writing;
    *is_asked = true;
    return -1;
}

static bool trust(SSL_CTX *context, const char *ca_file, char *error)
{
    if (ca_file == NULL) {
        (void)snprintf(error, TLS_ERROR_BYTES_MAX,
                       "the system's certificates cannot be read");
        return SSL_CTX_set_default_verify_paths(context) == 1;
    }
    if (!is_file(ca_file, error)) {
        return false;
    }
    if (SSL_CTX_load_verify_file(context, ca_file) == 1) {
        return true;
    }
    (void)snprintf(error, TLS_ERROR_BYTES_MAX,
                   "%s: no certificates in PEM form to trust: %s", ca_file,
                   last_reason());
    return false;
}

static bool show(SSL_CTX *context, const struct tls_options *options, char *error)
{
    if (options->cert_file == NULL) {
        return true;
    }
    const char *key_file = options->key_file != NULL ? options->key_file
                                                     : options->cert_file;
    bool is_asked = false;
    if (!is_file(options->cert_file, error) || !is_file(key_file, error)) {
        return false;
    }
    SSL_CTX_set_default_passwd_cb(context, refuse_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(context, &is_asked);
    if (SSL_CTX_use_certificate_chain_file(context, options->cert_file) != 1) {
        (void)snprintf(error, TLS_ERROR_BYTES_MAX, "%s: no certificate in PEM form: %s",
                       options->cert_file, last_reason());
        return false;
    }
    if (SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM) == 1) {
        return true;
    }
    if (is_asked) {
        (void)snprintf(error, TLS_ERROR_BYTES_MAX,
                       "%s: the key has a pass phrase; openssl pkey takes it off",
                       key_file);
    } else {
        (void)snprintf(error, TLS_ERROR_BYTES_MAX,
                       "%s: no private key in PEM form for %s: %s", key_file,
                       options->cert_file, last_reason());
    }
    return false;
}

struct tls *tls_new(const struct tls_options *options, char *error)
{
    struct tls *tls = calloc(1, sizeof(*tls));
    (void)snprintf(error, TLS_ERROR_BYTES_MAX, "out of memory");
    ERR_clear_error();
    if (tls == NULL) {
        return NULL;
    }
    tls->context = SSL_CTX_new(TLS_client_method());
    if (tls->context == NULL
        || SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1
        || !trust(tls->context, options->ca_file, error)
        || !show(tls->context, options, error)) {
        tls_free(tls);
        return NULL;
    }
    SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
    /* What is left of a write is written from where it then lies. */
    (void)SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE
                                             | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return tls;
}

void tls_free(struct tls *tls)
{
    if (tls != NULL) {
        SSL_CTX_free(tls->context);
        free(tls);
    }
}

/* A peer that is asked for by address has a certificate for that address. */
static bool expect_name(SSL *session, const char *server_name)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(session);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, server_name) == 1) {
        return true;
    }
    char name[TLS_NAME_BYTES_MAX]; /* OpenSSL's macro takes no text that is const */
    ERR_clear_error();
    if ((size_t)snprintf(name, sizeof(name), "%s", server_name) >= sizeof(name)) {
        return false;
    }
    X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(session, name) == 1
           && SSL_set_tlsext_host_name(session, name) == 1;
}

struct ssl_st *tls_session(struct tls *tls, int fd, const char *server_name)
{
    SSL *session = SSL_new(tls->context);
    if (session == NULL) {
        return NULL;
    }
    if (SSL_set_fd(session, fd) != 1 || !expect_name(session, server_name)) {
        SSL_free(session);
        return NULL;
    }
    SSL_set_connect_state(session);
    return session;
}

const char *tls_why(const struct ssl_st *session)
{
    long verdict = SSL_get_verify_result(session);
    return verdict != X509_V_OK ? X509_verify_cert_error_string(verdict)
                                : last_reason();
}
