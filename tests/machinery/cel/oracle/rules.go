package main

import (
	"context"
	"encoding/json"
	"errors"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	jsonutil "k8s.io/apimachinery/pkg/util/json"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

type valuePair struct {
	Self    json.RawMessage `json:"self"`
	OldSelf json.RawMessage `json:"oldSelf"`
}

type ruleAnswer struct {
	Error        string       `json:"error,omitempty"`
	Cost         uint64       `json:"cost"`
	UsesOldSelf  bool         `json:"usesOldSelf,omitempty"`
	MessageError string       `json:"messageError,omitempty"`
	MessageCost  uint64       `json:"messageCost,omitempty"`
	Evaluations  []evaluation `json:"evaluations,omitempty"`
}

type evaluation struct {
	Result any    `json:"result,omitempty"`
	Error  string `json:"error,omitempty"`
	Cost   uint64 `json:"cost"`
}

var environments = environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())

func compileRules(ctx context.Context, asked question) (answer, error) {
	structural, err := readSchema(asked.Schema)
	if err != nil {
		return answer{}, err
	}
	declared := model.SchemaDeclType(structural, asked.IsResource)
	if declared == nil {
		return answer{}, errors.New("expressions cannot access the schema")
	}
	compiled, err := cel.Compile(
		structural, declared, celconfig.PerCallLimit, environments, cel.NewExpressionsEnvLoader(),
	)
	if err != nil {
		return answer{}, err
	}
	result := answer{MinSize: declared.MinSerializedSize}
	visible := structural
	if asked.IsResource {
		visible = model.WithTypeAndObjectMeta(structural)
	}
	for i, rule := range compiled {
		result.Cardinality = rule.MaxCardinality
		item := ruleAnswer{Cost: rule.MaxCost, UsesOldSelf: rule.UsesOldSelf, MessageCost: rule.MessageExpressionMaxCost}
		if rule.Error != nil {
			item.Error = rule.Error.Detail
		}
		if rule.MessageExpressionError != nil {
			item.MessageError = rule.MessageExpressionError.Detail
		}
		isOptional := structural.XValidations[i].OptionalOldSelf != nil && *structural.XValidations[i].OptionalOldSelf
		for _, pair := range asked.Values {
			if rule.Program == nil {
				break
			}
			variables, err := readValues(pair, visible, isOptional)
			if err != nil {
				return answer{}, err
			}
			item.Evaluations = append(item.Evaluations, evaluate(ctx, rule.Program, variables))
		}
		result.Rules = append(result.Rules, item)
	}
	return result, nil
}

func readSchema(source json.RawMessage) (*schema.Structural, error) {
	var external apiextensionsv1.JSONSchemaProps
	if err := json.Unmarshal(source, &external); err != nil {
		return nil, err
	}
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&external, &internal, nil); err != nil {
		return nil, err
	}
	return schema.NewStructural(&internal)
}

type activation map[string]ref.Val

func (a activation) ResolveName(name string) (any, bool) {
	value, ok := a[name]
	return value, ok
}

func (a activation) Parent() interpreter.Activation { return nil }

func readValues(pair valuePair, structural *schema.Structural, isOptional bool) (activation, error) {
	variables := activation{}
	var self any
	if err := jsonutil.Unmarshal(pair.Self, &self); err != nil {
		return nil, err
	}
	variables[cel.ScopedVarName] = cel.UnstructuredToVal(self, structural)
	if isOptional {
		variables[cel.OldScopedVarName] = types.OptionalNone
	}
	if pair.OldSelf != nil {
		var old any
		if err := jsonutil.Unmarshal(pair.OldSelf, &old); err != nil {
			return nil, err
		}
		value := cel.UnstructuredToVal(old, structural)
		if isOptional {
			value = types.OptionalOf(value)
		}
		variables[cel.OldScopedVarName] = value
	}
	return variables, nil
}

func evaluate(ctx context.Context, program celgo.Program, variables activation) evaluation {
	value, details, err := program.ContextEval(ctx, variables)
	var outcome evaluation
	if details != nil && details.ActualCost() != nil {
		outcome.Cost = *details.ActualCost()
	}
	if err != nil {
		outcome.Error = err.Error()
	} else {
		outcome.Result = value.Value()
	}
	return outcome
}
