// The oracle answers questions about validation rules with the real implementation of Kubernetes: one JSON question on
// each line of its standard input, one JSON answer on each line of its standard output.
//
// A question has either a "schema" with rules and values, or a "definition", which is a whole CustomResourceDefinition.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

type question struct {
	Schema     json.RawMessage `json:"schema"`
	IsResource bool            `json:"isResource"`
	Values     []valuePair     `json:"values"`
	Definition json.RawMessage `json:"definition"`
}

type answer struct {
	Error       string       `json:"error,omitempty"`
	MinSize     int64        `json:"minSize,omitempty"`
	Cardinality uint64       `json:"cardinality,omitempty"`
	Rules       []ruleAnswer `json:"rules,omitempty"`
	Causes      []cause      `json:"causes,omitempty"`
}

func main() {
	reader := bufio.NewReaderSize(os.Stdin, 1<<20)
	writer := bufio.NewWriter(os.Stdout)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			if err := encoder.Encode(reply(line)); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			writer.Flush()
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func reply(line []byte) answer {
	var asked question
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{Error: err.Error()}
	}
	var result answer
	var err error
	if asked.Definition != nil {
		result, err = validateDefinition(context.Background(), asked.Definition)
	} else {
		result, err = compileRules(context.Background(), asked)
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return result
}
