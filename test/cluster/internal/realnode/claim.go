package realnode

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// claims contains a folder for each N in use, with the cluster's directory in ownerFile
// and the state of runc in runcFolder.
const (
	claims     = "/run/gcu-testcluster"
	ownerFile  = "cluster"
	runcFolder = "runc"
)

func claimOf(number int) string { return filepath.Join(claims, strconv.Itoa(number)) }

// Claim claims a free N for the cluster whose state file is owner. It also removes what
// clusters without a state file have left.
func Claim(ctx context.Context, owner string) (number int, err error) {
	unlock, err := lock()
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := removeOwned(ctx, func(owner string) bool {
		_, err := os.Lstat(owner)
		return errors.Is(err, fs.ErrNotExist)
	}); err != nil {
		return 0, err
	}
	used, err := usedPrefixes()
	if err != nil {
		return 0, err
	}
	for number := firstNumber; number <= lastNumber; number++ {
		_, err := os.Lstat(claimOf(number))
		if err == nil || overlaps(used, netip.PrefixFrom(Nodes{Number: number}.address(0, 0), 16)) {
			continue
		}
		if err := os.Mkdir(claimOf(number), 0o700); err != nil {
			return 0, fmt.Errorf("claiming addresses: %w", err)
		}
		if err := os.WriteFile(filepath.Join(claimOf(number), ownerFile), []byte(owner), 0o600); err != nil {
			return 0, fmt.Errorf("claiming addresses: %w", err)
		}
		return number, nil
	}
	return 0, fmt.Errorf("no free addresses for real nodes: all of 10.%d.0.0 to 10.%d.255.255 are in use", firstNumber, lastNumber)
}

// Remove kills all real nodes of the cluster whose state file is owner, and removes
// their resources outside its directory. It needs only the claim, and does nothing
// without one.
func Remove(ctx context.Context, owner string) error {
	if os.Getuid() != 0 {
		return nil // only root can have real nodes, or read the claims
	}
	if _, err := os.Stat(claims); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	unlock, err := lock()
	if err != nil {
		return err
	}
	defer unlock()
	return removeOwned(ctx, func(other string) bool { return other == owner })
}

// lock serializes programs that claim or remove. The lock also ends with the program.
func lock() (unlock func(), err error) {
	if err := os.MkdirAll(claims, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of claims: %w", err)
	}
	folder, err := os.Open(claims)
	if err != nil {
		return nil, fmt.Errorf("locking the claims: %w", err)
	}
	if err := syscall.Flock(int(folder.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking the claims: %w", err), folder.Close())
	}
	// Closing the folder releases the lock.
	return func() { _ = folder.Close() }, nil
}

// removeOwned removes the resources of the claims with a chosen owner, and then the
// claims. The owner of an unfinished claim is "".
func removeOwned(ctx context.Context, chosen func(owner string) bool) error {
	entries, err := os.ReadDir(claims)
	if err != nil {
		return fmt.Errorf("reading the claims: %w", err)
	}
	for _, entry := range entries {
		number, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		owner, err := os.ReadFile(filepath.Join(claimOf(number), ownerFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the claims: %w", err)
		}
		if !chosen(string(owner)) {
			continue
		}
		if err := (Nodes{Number: number}).removeAll(ctx); err != nil {
			return err
		}
		if err := os.RemoveAll(claimOf(number)); err != nil {
			return fmt.Errorf("removing a claim: %w", err)
		}
	}
	return nil
}

// removeAll kills and removes everything with N in its name.
func (n Nodes) removeAll(ctx context.Context) error {
	ids, err := n.containers()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := n.end(ctx, id); err != nil {
			return err
		}
	}
	if err := n.removeNetwork(ctx, ""); err != nil {
		return err
	}
	return removeCgroups(n.id(""))
}

// containers returns the ids of runc's containers.
func (n Nodes) containers() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(claimOf(n.Number), runcFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing the real nodes: %w", err)
	}
	var ids []string
	for _, entry := range entries {
		ids = append(ids, entry.Name())
	}
	return ids, nil
}

// removeCgroups removes the top-level groups of each hierarchy with this name prefix.
// They must be empty.
func removeCgroups(prefix string) error {
	const hierarchies = "/sys/fs/cgroup"
	var groups []string
	for _, pattern := range []string{hierarchies + "/" + prefix + "*", hierarchies + "/*/" + prefix + "*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return fmt.Errorf("listing cgroups: %w", err)
		}
		groups = append(groups, found...)
	}
	for _, group := range groups {
		if err := removeCgroup(group); err != nil {
			return fmt.Errorf("removing a cgroup: %w", err)
		}
	}
	return nil
}

// removeCgroup removes a group and its descendants. Its files disappear with it.
func removeCgroup(group string) error {
	entries, err := os.ReadDir(group)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeCgroup(filepath.Join(group, entry.Name())); err != nil {
				return err
			}
		}
	}
	if err := syscall.Rmdir(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "rmdir", Path: group, Err: err}
	}
	return nil
}

// usedPrefixes returns the networks of this machine's interfaces.
func usedPrefixes() ([]netip.Prefix, error) {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	var used []netip.Prefix
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(strings.TrimSpace(address.String())); err == nil {
			used = append(used, prefix)
		}
	}
	return used, nil
}

func overlaps(used []netip.Prefix, wanted netip.Prefix) bool {
	for _, prefix := range used {
		if prefix.Overlaps(wanted) {
			return true
		}
	}
	return false
}
