package main

import (
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime/debug"
)

// document lists what is in a program, as SPDX 2.3.
type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []spdxPackage  `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	SPDXID           string     `json:"SPDXID"`
	Name             string     `json:"name"`
	Version          string     `json:"versionInfo,omitempty"`
	DownloadLocation string     `json:"downloadLocation"`
	FilesAnalyzed    bool       `json:"filesAnalyzed"`
	SourceInfo       string     `json:"sourceInfo,omitempty"`
	FileName         string     `json:"packageFileName,omitempty"`
	Checksums        []checksum `json:"checksums,omitempty"`
	ExternalRefs     []external `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type external struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

const (
	documentID = "SPDXRef-DOCUMENT"
	programID  = "SPDXRef-program"
)

// contents writes what modules each program was made of: the list that Go writes into it.
func (r *release) contents(context.Context) error {
	for _, name := range programs {
		for _, p := range platforms[name] {
			path := r.program(name, p)
			info, err := buildinfo.ReadFile(path)
			if err != nil {
				return err
			}
			sum, err := sumOf(path)
			if err != nil {
				return err
			}
			title := archiveName(name, r.version, p)
			program := spdxPackage{SPDXID: programID, Name: name, Version: r.version, DownloadLocation: "NOASSERTION",
				FileName: filepath.Base(path), Checksums: []checksum{{"SHA256", sum}}}
			text, err := json.MarshalIndent(r.bill(title, program, info), "", " ")
			if err != nil {
				return err
			}
			if err := r.write(title+".spdx.json", append(text, '\n')); err != nil {
				return err
			}
		}
	}
	return nil
}

// bill lists a program, its modules, and the Go that compiled it. The sum that Go has of a module is that of a
// list of its files: it is given as Go writes it, as no algorithm of SPDX.
func (r *release) bill(title string, program spdxPackage, info *debug.BuildInfo) *document {
	list := &document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: documentID, Name: title,
		DocumentNamespace: "https://github.com/topsops/gcu-operator/spdx/" + title,
		CreationInfo:      creation{r.built.UTC().Format("2006-01-02T15:04:05Z"), []string{"Tool: gcu-operator-release"}},
		Packages:          []spdxPackage{program},
		Relationships:     []relationship{{documentID, "DESCRIBES", programID}},
	}
	modules := append([]*debug.Module{{Path: "stdlib", Version: info.GoVersion}}, info.Deps...)
	for i, m := range modules {
		if m.Replace != nil {
			m = m.Replace
		}
		p := spdxPackage{SPDXID: fmt.Sprintf("SPDXRef-module-%d", i), Name: m.Path, Version: m.Version, DownloadLocation: "NOASSERTION",
			ExternalRefs: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}}}
		if m.Sum != "" {
			p.SourceInfo = "go.sum " + m.Sum
		}
		list.Packages = append(list.Packages, p)
		list.Relationships = append(list.Relationships, relationship{programID, "DEPENDS_ON", p.SPDXID})
	}
	return list
}
