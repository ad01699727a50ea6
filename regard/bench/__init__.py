"""something to measure → seconds and bytes, each measured in a process of its own.

One mechanism at one length: cases, measure, attention_report. Whole updates, beside other
toolkits: sizes, sentences, contestants, race and its workers, training_race,
training_gpu, contests.
"""
