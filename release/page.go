package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"text/template"
)

const (
	checksumFile = "checksums.txt"
	// signatureFile is what "cosign verify-blob --signature" and, decoded, "openssl dgst -verify" read.
	signatureFile = checksumFile + ".sig"
)

// krew fills in .krew.yaml, which is a template in the form of krew's release bot.
func (r *release) krew(context.Context) error {
	text, err := os.ReadFile(".krew.yaml")
	if err != nil {
		return err
	}
	addURIAndSha := func(uri, _ string) (string, error) {
		uri = strings.ReplaceAll(uri, "{{ .TagName }}", r.version)
		sum, err := sumOf(r.file(path.Base(uri)))
		return "uri: " + uri + "\n      sha256: " + sum, err
	}
	parsed, err := template.New(".krew.yaml").Funcs(template.FuncMap{"addURIAndSha": addURIAndSha}).Parse(string(text))
	if err != nil {
		return err
	}
	var filled bytes.Buffer
	if err := parsed.Execute(&filled, struct{ TagName string }{r.version}); err != nil {
		return err
	}
	return r.write("gcu.yaml", filled.Bytes())
}

// notes writes what CHANGELOG.md says of the version.
func (r *release) notes(context.Context) error {
	text, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	section, err := changes(string(text), r.version)
	if err != nil {
		return err
	}
	verify := "Nothing of it is signed.\n"
	if r.key != "" {
		verify = "Verify it with the public key: cosign verify-blob --key cosign.pub --insecure-ignore-tlog --signature " + signatureFile + " " + checksumFile + "\n"
	}
	return r.write("notes.md", []byte(section+"\n## Image\n\n`"+r.image+"`\n\n`sha256sum --ignore-missing -c "+checksumFile+"` checks what you have. "+verify))
}

// changes returns the section of a version in a text in the form of Keep a Changelog, or that of
// what is unreleased if there is none of the version.
func changes(text, version string) (string, error) {
	for _, heading := range []string{"## [" + strings.TrimPrefix(version, "v") + "]", "## [Unreleased]"} {
		_, section, found := strings.Cut(text, "\n"+heading)
		if !found {
			continue
		}
		section, _, _ = strings.Cut(section, "\n## ")
		_, section, _ = strings.Cut(section, "\n") // the rest of the heading: its date
		return strings.TrimSpace(section) + "\n", nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no section ## [%s] and no ## [Unreleased]", strings.TrimPrefix(version, "v"))
}

// names returns the files of the release in the order of their names.
func (r *release) names() ([]string, error) {
	entries, err := os.ReadDir(r.output)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// expected returns the names of the files that a version has besides checksums, in their order, with packages or without.
func expected(version string, packaged bool) []string {
	names := append([]string{"install.yaml", "gcu.yaml", "notes.md", chartFile(version), "gcu-operator_" + version + "_image_oci.tar"}, mirroring...)
	for _, p := range platforms["manager"] {
		names = append(names, archiveName("gcu-operator", version+"_image", p)+".tar")
	}
	for _, name := range programs {
		for _, p := range platforms[name] {
			names = append(names, archiveName(name, version, p)+".spdx.json")
			if slices.Contains(archived, name) {
				names = append(names, archive(name, version, p))
			}
		}
	}
	for _, p := range onLinux {
		for _, packager := range packagers {
			if packaged {
				names = append(names, archiveName("node-agent", version, p)+"."+packager)
			}
		}
	}
	slices.Sort(names)
	return names
}

// isComplete returns an error unless the files are those of a release.
func (r *release) isComplete(context.Context) error {
	names, err := r.names()
	if want := expected(r.version, r.nfpm != none); err == nil && !slices.Equal(names, want) {
		err = fmt.Errorf("there are the files %q, and a release has %q", names, want)
	}
	return err
}

// checksums writes the sums of all files, and signs them if there is a key.
func (r *release) checksums(context.Context) error {
	names, err := r.names()
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, name := range names {
		sum, err := sumOf(r.file(name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	if err := r.write(checksumFile, sums.Bytes()); err != nil || r.key == "" {
		return err
	}
	signature, err := sign(r.key, sums.Bytes())
	if err != nil {
		return fmt.Errorf("signing with --key %s: %w", r.key, err)
	}
	return r.write(signatureFile, []byte(base64.StdEncoding.EncodeToString(signature)))
}

// sign signs the SHA-256 of a text with the ECDSA key of a PEM file.
func sign(path string, text []byte) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New("it is not in PEM")
	}
	var key any
	if key, err = x509.ParseECPrivateKey(block.Bytes); err != nil {
		if key, err = x509.ParsePKCS8PrivateKey(block.Bytes); err != nil {
			return nil, errors.New("it is neither SEC 1 nor PKCS #8: openssl ecparam -genkey -name prime256v1 -noout makes one")
		}
	}
	private, ok := key.(*ecdsa.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("it holds a %T, not an ECDSA key", key)
	}
	sum := sha256.Sum256(text)
	return ecdsa.SignASN1(rand.Reader, private, sum[:])
}

// list prints the files, their sizes, and whether they are signed.
func (r *release) list() error {
	names, err := r.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := os.Stat(r.file(name))
		if err != nil {
			return err
		}
		fmt.Printf("%8.1f MB  %s\n", float64(info.Size())/1e6, name)
	}
	signed := "not signed: KEY=file signs them"
	if r.key != "" {
		signed = "signed with " + r.key
	}
	fmt.Printf("%d files of %s in %s, %s\n", len(names), r.version, r.output, signed)
	return nil
}
