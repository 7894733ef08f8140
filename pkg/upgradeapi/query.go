package upgradeapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// queryOf parses the query of a request. It rejects one that it can read only in part, for which url.URL.Query returns the rest: a dryRun that is
// left out would become a write.
func queryOf(address *url.URL) (url.Values, error) {
	query, err := url.ParseQuery(address.RawQuery)
	if err != nil {
		return nil, request.BadRequest("the query cannot be read: %.100q: write %%3B for a semicolon and %%25 for a percent sign in a value", address.RawQuery)
	}
	return query, nil
}

// writeIn reads the query of a write request: dryRun, and the flag that its endpoint has, "" for none. It rejects
// unknown parameters: a misspelled dryRun must not become a write.
func writeIn(query url.Values, flag string) (dryRun, flagged bool, err error) {
	known, rest, own := "the only parameter is dryRun=true", url.Values{}, url.Values{}
	if flag != "" {
		known = "the parameters are " + flag + "=true and dryRun=true"
	}
	for key, values := range query {
		if key == flag {
			own[key] = values
		} else {
			rest[key] = values
		}
	}
	if dryRun, err = onlyBool(rest, "dryRun", known); err != nil {
		return false, false, err
	}
	flagged, err = onlyBool(own, flag, known)
	return dryRun, flagged, err
}

// formatIn reads the format of a plan file, JSON without one, and returns the rest of the query.
func formatIn(query url.Values) (asYAML bool, rest url.Values, err error) {
	rest = url.Values{}
	for key, values := range query {
		switch {
		case key != "format":
			rest[key] = values
		case len(values) != 1 || values[0] != "json" && values[0] != "yaml":
			return false, nil, request.BadRequest("format %.100q is neither json nor yaml", strings.Join(values, ","))
		default:
			asYAML = values[0] == "yaml"
		}
	}
	return asYAML, rest, nil
}

// approvedIn reads the query of a POST for a plan, or the rest of that of a GET.
func approvedIn(query url.Values) (bool, error) {
	return onlyBool(query, "approved", "the parameters are file, nodes, components, all and approved, of a POST only approved")
}

// onlyBool reads the only parameter that a query may have; known lists it for the error.
func onlyBool(query url.Values, name, known string) (bool, error) {
	for key, values := range query {
		if key != name || len(values) != 1 {
			return false, request.BadRequest("query %.100q is not valid: %s", query.Encode(), known)
		}
	}
	if !query.Has(name) {
		return false, nil
	}
	return boolean(name, query.Get(name))
}

func boolean(name, text string) (bool, error) {
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, request.BadRequest("%s %.100q is neither true nor false", name, text)
	}
	return value, nil
}

// planIn reads the query of a GET for a plan: the fields of the body of a PUT, or none for
// what is left to do.
func planIn(query url.Values) (body request.Upgrade, approved bool, err error) {
	body, rest, err := upgradeIn(query)
	if err != nil {
		return body, false, err
	}
	if approved, err = approvedIn(rest); err != nil {
		return body, false, err
	}
	return body, approved, body.Check()
}

// planFileIn reads the query of a GET for a plan file.
func planFileIn(query url.Values) (body request.Upgrade, asYAML bool, err error) {
	asYAML, rest, err := formatIn(query)
	if err != nil {
		return body, false, err
	}
	if body, rest, err = upgradeIn(rest); err != nil {
		return body, false, err
	}
	if err := empty(rest); err != nil {
		return body, false, err
	}
	return body, asYAML, body.Check()
}

// onlyFormatIn reads the query of a POST for a plan file.
func onlyFormatIn(query url.Values) (asYAML bool, err error) {
	asYAML, rest, err := formatIn(query)
	if err != nil {
		return false, err
	}
	return asYAML, empty(rest)
}

// empty rejects the rest of the query for a plan file.
func empty(rest url.Values) error {
	_, err := onlyBool(rest, "", "the parameters are file, nodes, components, all and format, of a POST only format")
	return err
}

// upgradeIn reads the fields of the body of a PUT, and returns the rest of the query.
func upgradeIn(query url.Values) (body request.Upgrade, rest url.Values, err error) {
	body.Mode, rest = request.ModeInPlace, url.Values{}
	for key, values := range query {
		switch {
		case key == "file" && len(values) == 1 && values[0] != "":
			body.File = values[0]
		case key == "nodes":
			body.Nodes = listed(values)
		case key == "components":
			body.Components = listed(values)
		case key == "all" && len(values) == 1:
			if body.All, err = boolean(key, values[0]); err != nil {
				return body, nil, err
			}
		default:
			rest[key] = values
		}
	}
	return body, rest, nil
}

// listed returns the names in repeated or comma-separated values.
func listed(values []string) []string {
	names := []string{}
	for _, v := range values {
		names = append(names, strings.Split(v, ",")...)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}
