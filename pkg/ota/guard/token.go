package guard

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	// tokenBytes is the length of a generated token.
	tokenBytes = 32
	// minTokenLength is the least length of a token that was put there by other means.
	minTokenLength = 32
	// maxTokenFile is more than any token needs.
	maxTokenFile = 4096
)

// Token returns the token in a file, which it creates with a new token if it does not
// exist. A file that is readable by group or others, is owned by another user than this
// process, or holds fewer than 32 characters is an error.
func Token(path string) (string, error) {
	token, err := readToken(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	if err := makeToken(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("making the token file: %w", err)
	}
	return readToken(path)
}

func readToken(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("reading the token file: %w", err)
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("token file %s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("token file %s has mode %#o: others than its owner can use it, chmod 600 it and put a new token into it", path, info.Mode().Perm())
	case known && int(owner.Uid) != os.Geteuid():
		return "", fmt.Errorf("token file %s belongs to user %d, not to %d", path, owner.Uid, os.Geteuid())
	case info.Size() > maxTokenFile:
		return "", fmt.Errorf("token file %s is larger than %d bytes", path, maxTokenFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the token file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if len(token) < minTokenLength {
		return "", fmt.Errorf("token file %s holds less than %d characters: remove it, and a new one is made", path, minTokenLength)
	}
	return token, nil
}

// makeToken creates the file atomically. It returns fs.ErrExist if another process was
// first.
func makeToken(path string) (err error) {
	secret := make([]byte, tokenBytes)
	_, _ = rand.Read(secret) // never fails
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".token-") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(file.Name())) }()
	_, err = file.WriteString(hex.EncodeToString(secret) + "\n")
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Link(file.Name(), path)
}

// Bearer admits requests with the token in the Authorization header (RFC 6750).
func Bearer(token string) Caller {
	want := sha256.Sum256([]byte(token))
	return func(r *http.Request) *Denial {
		scheme, presented, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		got := sha256.Sum256([]byte(strings.TrimSpace(presented)))
		if strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			return nil
		}
		return &Denial{Status: http.StatusUnauthorized, Reason: "Unauthorized",
			Message: "Send the token of this node as Authorization: Bearer TOKEN (root reads it from the file of --ota-token-file), or use the socket as root."}
	}
}
